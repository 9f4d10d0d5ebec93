// Why a queue grows, or why nothing comes out: what the figures say, in sentences.

import { newest } from '../charts.js'
import { count, duration, html, rate, Section } from '../parts.js'

// Seconds of history that a judgement looks at.
const WINDOW = 30
// With fewer points than this nothing is judged.
const POINTS_MIN = 8

function mean (history, name) {
  const points = (history.series[name] ?? []).slice(-WINDOW).filter((point) => point != null)
  return points.length < POINTS_MIN ? null : points.reduce((sum, point) => sum + point, 0) / points.length
}

const prefetchOf = (consumers) => consumers.reduce((sum, one) => sum + (one.prefetch_count || Infinity), 0)

// `[kind, sentence]`, the weightiest first.
export function findings (q, history) {
  const found = []
  const [arriving, leaving, redelivered] = ['publish', 'ack', 'redeliver'].map((name) => mean(history, name))
  const delivered = mean(history, 'deliver_get')
  const consumers = q.consumer_details ?? []
  const acknowledging = consumers.filter((one) => one.ack_required)
  const backlog = q.messages_ready ?? 0
  const unacked = q.messages_unacknowledged ?? 0
  const out = acknowledging.length > 0 || consumers.length === 0 ? leaving : delivered
  if (q.state === 'down') found.push(['bad', 'The queue has no leader: nothing can be published to it or consumed from it until a majority of its replicas is back.'])
  if (backlog > 0 && consumers.length === 0) found.push(['bad', `Nobody consumes from it, and ${count(backlog)} messages wait.`])
  if (arriving != null && out != null && arriving > out * 1.05 + 0.5) {
    const time = arriving - out
    found.push(['warn', `It grows by ${rate(time)}: ${rate(arriving)} arrive, ${rate(out)} are ${acknowledging.length ? 'acknowledged' : 'taken'}.`])
  } else if (backlog > 0 && out > arriving + 0.5) {
    found.push(['good', `It shrinks by ${rate(out - arriving)}: at this pace it is empty in ${duration(backlog / (out - arriving) * 1000)}.`])
  }
  const room = prefetchOf(acknowledging)
  if (acknowledging.length > 0 && backlog > 0 && unacked >= room * 0.95) {
    found.push(['warn', `Its consumers hold all that their prefetch allows (${count(unacked)} of ${count(room)}) and acknowledge ${rate(leaving ?? 0)}: they are the bottleneck. More consumers help; a larger prefetch helps only if they wait for the network.`])
  }
  if (unacked > 0 && leaving === 0 && delivered === 0) found.push(['bad', `${count(unacked)} messages are with consumers, and none was acknowledged in the last ${WINDOW} s: a consumer is stuck, or does not acknowledge.`])
  if (redelivered > 0.5 && redelivered > (delivered ?? 0) * 0.2) found.push(['warn', `${rate(redelivered)} are redelivered: consumers put messages back, so that they come round again.`])
  const waiting = consumers.filter((one) => one.activity_status === 'waiting').length
  if (waiting > 0) found.push(['', `${count(waiting)} consumers wait: the queue has one active consumer at a time.`])
  if (consumers.length > 0 && backlog > 0 && q.consumer_capacity > 0.9 && !(arriving > out)) found.push(['', 'Its consumers can take messages nearly all of the time.'])
  return found
}

export function Growth ({ q, history }) {
  const found = findings(q, history)
  if (found.length === 0 || newest(history, 'messages') == null) return null
  return html`<${Section} title="What these figures say"><ul class="advice">${found.map(([kind, sentence]) => html`<li class=${kind}>${sentence}</li>`)}</ul></>`
}
