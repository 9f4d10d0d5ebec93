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

const DEPTH_MAX = 100
const SCALAR = /[^\s[\]{},:"]+/y
// Not one by one: there may be millions of them.
const SPACES = /[ \t\n\r]*/y

// Behind the string that begins here.
function stringEnd (text, start) {
  for (let at = start + 1; ; at++) {
    at = text.indexOf('"', at)
    if (at < 0) return text.length
    let first = at
    while (text[first - 1] === '\\') first--
    if ((at - first) % 2 === 0) return at + 1
  }
}

// The tokens of a JSON text, each as it stands there.
function * tokens (text) {
  const behindSpaces = (at) => {
    if (text[at] > ' ') return at
    SPACES.lastIndex = at
    return at + SPACES.exec(text)[0].length
  }
  for (let at = behindSpaces(0); at < text.length;) {
    let end = at + 1
    if (text[at] === '"') {
      end = stringEnd(text, at)
    } else if (!'[]{},:'.includes(text[at])) {
      SCALAR.lastIndex = at
      end = at + SCALAR.exec(text)[0].length
    }
    yield text.slice(at, end)
    at = behindSpaces(end)
  }
}

// A JSON text with one value a line; what nests too deep as it is.
export function indented (text) {
  let [out, depth, last] = ['', 0, '']
  const line = () => '\n' + '  '.repeat(depth)
  for (const token of tokens(text)) {
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
export function compacted (text) {
  let out = ''
  for (const token of tokens(text)) out += token
  return out
}
