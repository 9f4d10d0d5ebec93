// Lines over time on a canvas: a grid, what it stands for, and the point under the pointer.

const HEIGHT = 170
const EDGE = { left: 62, right: 8, top: 8, bottom: 26 }
const FONT = '11px system-ui, sans-serif'
// Seconds between two times that are written below, and pixels between two texts.
const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]
const TIME_APART = 70
const VALUE_APART = 34

// The least of 1, 2 and 5, with zeros, that is not less: of the unit by which it is told. Units are
// a `thousand` apart, which for bytes is 1,024.
function roundUp (n, thousand) {
  const unit = n < 1 ? 1 : thousand ** Math.floor(Math.log(n) / Math.log(thousand))
  const ten = 10 ** Math.floor(Math.log10(n / unit))
  return unit * ten * ([1, 2, 5].find((one) => unit * one * ten >= n) ?? 10)
}

// `lines`: `{stroke, fill}`; `format(value)` and `clock(seconds)` are the texts beside and below.
export class Plot {
  constructor (holder, { lines, range, format, thousand, clock, grid, ink, onHover }) {
    Object.assign(this, { holder, lines, range, format, thousand, clock, grid, ink, hovered: null, data: [[]] })
    this.canvas = holder.appendChild(document.createElement('canvas'))
    const hover = (at) => {
      this.hovered = at
      onHover(at)
      this.draw()
    }
    this.canvas.addEventListener('mouseleave', () => hover(null))
    this.canvas.addEventListener('mousemove', ({ offsetX }) => hover(this.nearest(offsetX)))
    this.observer = new ResizeObserver(() => this.draw())
    this.observer.observe(holder)
  }

  destroy () {
    this.observer.disconnect()
    this.canvas.remove()
  }

  // `data`: times in seconds, then the values of each line; none (`null`) is a gap, and
  // `undefined` is left out of its line.
  set (data) {
    this.data = data
    this.draw()
  }

  x (time) {
    const part = (time - this.begin) / this.range
    return EDGE.left + part * (this.width - EDGE.left - EDGE.right)
  }

  y (value) {
    return HEIGHT - EDGE.bottom - value / this.most * (HEIGHT - EDGE.bottom - EDGE.top)
  }

  nearest (x) {
    let best = null
    for (const [at, time] of this.data[0].entries()) {
      const apart = Math.abs(this.x(time) - x)
      if (best === null || apart < Math.abs(this.x(this.data[0][best]) - x)) best = at
    }
    return best
  }

  draw () {
    const [times, ...series] = this.data
    const ratio = devicePixelRatio
    this.width = this.holder.clientWidth || 300
    this.begin = Date.now() / 1000 - this.range
    const first = times.findIndex((time) => time >= this.begin)
    const seen = first < 0 ? [] : series.flatMap((values) => values.slice(first))
    const most = seen.reduce((most, value) => Math.max(most, value ?? 0), 0)
    this.most = most > 0 ? most * 1.15 : 1
    this.canvas.width = this.width * ratio
    this.canvas.height = HEIGHT * ratio
    const c = this.canvas.getContext('2d')
    c.scale(ratio, ratio)
    this.drawGrid(c)
    c.beginPath()
    c.rect(EDGE.left, 0, this.width - EDGE.left - EDGE.right, HEIGHT)
    c.clip()
    c.lineWidth = 1.75
    c.lineJoin = 'round'
    for (const [at, line] of this.lines.entries()) this.drawLine(c, line, times, series[at])
    if (this.hovered !== null && this.hovered < times.length) this.drawPointer(c, times[this.hovered], series)
  }

  drawGrid (c) {
    Object.assign(c, { font: FONT, fillStyle: this.ink, strokeStyle: this.grid, lineWidth: 1, textBaseline: 'middle' })
    const rule = (...points) => {
      c.beginPath()
      c.moveTo(points[0], points[1])
      c.lineTo(points[2], points[3])
      c.stroke()
    }
    const [bottom, right] = [HEIGHT - EDGE.bottom, this.width - EDGE.right]
    const step = roundUp(this.most * VALUE_APART / (bottom - EDGE.top), this.thousand)
    c.textAlign = 'right'
    let said
    for (let n = 0; n * step <= this.most; n++) {
      const y = Math.round(this.y(n * step)) + 0.5
      rule(EDGE.left, y, right, y)
      // A step may be less than what is told apart.
      const text = this.format(Number((n * step).toPrecision(12)))
      if (text !== said) c.fillText(text, EDGE.left - 8, y, EDGE.left - 10)
      said = text
    }
    const apart = TIME_APART * this.range / (right - EDGE.left)
    const seconds = TIME_STEPS.find((one) => one >= apart) ?? TIME_STEPS.at(-1)
    const zone = new Date().getTimezoneOffset() * 60
    c.textAlign = 'center'
    for (let at = Math.ceil((this.begin - zone) / seconds) * seconds + zone; at <= this.begin + this.range; at += seconds) {
      const x = Math.round(this.x(at)) + 0.5
      rule(x, EDGE.top, x, bottom)
      // The last one would end beyond the edge.
      const text = this.clock(at)
      c.fillText(text, Math.min(x, this.width - c.measureText(text).width / 2 - 1), HEIGHT - EDGE.bottom / 2)
    }
  }

  // A line, in as many parts as it has gaps; a point between two of them is a dot.
  drawLine (c, { stroke, fill }, times, values) {
    let part = []
    const end = () => {
      if (part.length === 1) {
        c.fillStyle = stroke
        c.beginPath()
        c.arc(part[0][0], part[0][1], 1.5, 0, 7)
        c.fill()
      } else if (part.length > 1) {
        const path = new Path2D()
        for (const [x, y] of part) path.lineTo(x, y)
        c.strokeStyle = stroke
        c.stroke(path)
        if (fill) {
          path.lineTo(part.at(-1)[0], this.y(0))
          path.lineTo(part[0][0], this.y(0))
          c.fillStyle = fill
          c.fill(path)
        }
      }
      part = []
    }
    for (const [at, time] of times.entries()) {
      const value = values[at]
      if (value === null) end()
      else if (value !== undefined) part.push([this.x(time), this.y(value)])
    }
    end()
  }

  drawPointer (c, time, series) {
    const x = this.x(time)
    c.strokeStyle = this.ink
    c.lineWidth = 1
    c.beginPath()
    c.moveTo(x, EDGE.top)
    c.lineTo(x, HEIGHT - EDGE.bottom)
    c.stroke()
    for (const [at, { stroke }] of this.lines.entries()) {
      const value = series[at][this.hovered]
      if (value == null) continue
      c.fillStyle = stroke
      c.beginPath()
      c.arc(x, this.y(value), 3, 0, 7)
      c.fill()
    }
  }
}
