// What goes from one thing to another, where an answer about one of them tells: an exchange's
// queues, a queue's channels.

import { exchangeSegment } from '../api.js'
import { compact, html, Name, rate, Section, shown, Table } from '../parts.js'
import { first, More } from './trouble.js'

const SIDES = {
  exchange: { title: 'Exchange', cell: ({ exchange: e }) => html`<${Name} name=${e?.name ?? ''} at=${['exchanges', e?.vhost ?? '', exchangeSegment(e?.name ?? '')]} />` },
  queue: { title: 'Queue', cell: ({ queue: q }) => html`<${Name} name=${q?.name ?? ''} at=${['queues', q?.vhost ?? '', q?.name ?? '']} />` },
  channel_details: { title: 'Channel', cell: ({ channel_details: c }) => html`<${Name} name=${c?.name ?? ''} at=${['channels', c?.name ?? '']} /> <small><bdi>${shown(c?.user ?? '')}</bdi></small>` }
}

const PUBLISHED = [['publish', 'Rate']]
const DELIVERED = [['deliver_get', 'Delivered'], ['ack', 'Acked'], ['redeliver', 'Redelivered']]

// A table of pairs by their other `side`; of what is delivered, or published.
export function Pairs ({ title, rows = [], side, delivered = false, empty }) {
  const figures = delivered ? DELIVERED : PUBLISHED
  return html`<${Section} title=${title}><${Table} label=${title} rows=${first(rows)} keyOf=${(row) => row[side]?.name} empty=${empty} columns=${[
    SIDES[side],
    ...figures.map(([name, label]) => ({ title: label, number: true, cell: ({ stats }) => rate(stats?.[`${name}_details`]?.rate) })),
    { title: 'Messages', number: true, cell: ({ stats }) => compact(stats?.[figures[0][0]] ?? 0) }
  ]} /><${More} of=${rows.length} /></>`
}
