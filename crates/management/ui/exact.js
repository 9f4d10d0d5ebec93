// JSON that keeps its numbers. Those of JavaScript are exact up to 53 bits, those of AMQP have 64:
// an integer beyond stays what its text says.

// Such an integer. It counts as a number, and is written as its text.
export class Exact extends Number {
  #source

  constructor (source) {
    super(source)
    this.#source = source
  }

  toString () {
    return this.#source
  }

  toJSON () {
    return JSON.rawJSON(this.#source)
  }
}

// A JSON text that is sent as it stands.
export class Verbatim {
  constructor (text) {
    this.text = text
  }
}

const isRounded = (value, source) => typeof value === 'number' && /^-?[0-9]+$/.test(source) && !Number.isSafeInteger(value)

// A number as it was typed; `NaN` if it is none.
export const numberOf = (text) => text.trim() === '' ? NaN : isRounded(Number(text), text.trim()) ? new Exact(text.trim()) : Number(text)

// Most texts have no long number, and are read as quickly as they can be. Browsers that do not tell
// what stood in the text round.
export const parse = (text) => /[0-9]{16}/.test(text)
  ? JSON.parse(text, (_, value, context) => isRounded(value, context?.source) ? new Exact(context.source) : value)
  : JSON.parse(text)

const TOKENS = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/gs
const DEPTH_MAX = 100

// A JSON text with one value a line, each token as it stands there; what nests too deep as it is.
export function indented (text) {
  let [out, depth, last] = ['', 0, '']
  const line = () => '\n' + '  '.repeat(depth)
  for (const [token] of text.matchAll(TOKENS)) {
    if (token === '}' || token === ']') {
      depth--
      out += last === '{' || last === '[' ? token : line() + token
    } else {
      if (last === '{' || last === '[' || last === ',') out += line()
      out += token === ':' ? ': ' : token
      if (token === '{' || token === '[') depth++
    }
    if (depth > DEPTH_MAX) return text
    last = token
  }
  return out
}

// A JSON text without the spaces that people like.
export const compacted = (text) => text.replace(/("(?:[^"\\]|\\.)*")|\s+/gs, '$1')
