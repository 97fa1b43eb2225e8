/** What chat templates find around them in vLLM, which renders them with Jinja as `transformers` sets it up. */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'

/**
 * A template to render many times. The library's own `Template` is this with a formatter, and with a `strftime_now` that
 * speaks the machine's language and time zone; engines speak English and, in their containers, UTC. Throws an Error that
 * quotes the parser when the text is no template.
 * @param now milliseconds since the epoch
 */
export function jinja(text: string, now: () => number): (variables: Readonly<Record<string, unknown>>) => string {
  const program = parse(tokenize(text, { lstrip_blocks: true, trim_blocks: true }))
  return (variables) => {
    const environment = new Environment()
    const known = { ...constants, raise_exception: raise, range, strftime_now: (format: string) => strftime(new Date(now()), format), ...variables }
    for (const [name, value] of Object.entries(known)) environment.set(name, value)
    return String(new Interpreter(environment).run(program).value)
  }
}

const constants = { true: true, false: false, none: null, True: true, False: false, None: null }

function raise(message: string): never {
  throw new Error(message)
}

function range(from: number, to?: number, step = 1): number[] {
  const [start, end] = to === undefined ? [0, from] : [from, to]
  if (step === 0) throw new Error('range() step must not be zero')
  return Array.from({ length: Math.max(0, Math.ceil((end - start) / step)) }, (_, at) => start + at * step)
}

const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December']
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']

const two = (value: number): string => String(value).padStart(2, '0')

/** Python's `strftime` in the C locale and UTC, as far as chat templates use it. What it does not know stays as it is. */
function strftime(date: Date, format: string): string {
  const month = MONTHS[date.getUTCMonth()]!
  const day = DAYS[date.getUTCDay()]!
  const parts: Readonly<Record<string, string>> = {
    Y: String(date.getUTCFullYear()),
    m: two(date.getUTCMonth() + 1),
    d: two(date.getUTCDate()),
    H: two(date.getUTCHours()),
    M: two(date.getUTCMinutes()),
    S: two(date.getUTCSeconds()),
    B: month,
    b: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    '%': '%',
  }
  return format.replace(/%([a-zA-Z%])/g, (whole, letter: string) => parts[letter] ?? whole)
}
