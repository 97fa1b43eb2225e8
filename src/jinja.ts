/** Environment of chat templates in vLLM, which renders them with Jinja as `transformers` configures it. */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'

/**
 * Compiles a template for repeated use. It differs from the library's `Template` in `strftime_now`, which there uses
 * the machine's language and time zone; engines use English and, in containers, UTC. Throws an Error with the parser's
 * message if the text is no template.
 * @param now milliseconds since the epoch
 */
export function compileJinja(
  text: string,
  now: () => number,
): (variables: Readonly<Record<string, unknown>>) => string {
  const program = parse(tokenize(text, { lstrip_blocks: true, trim_blocks: true }))
  return (variables) => {
    const environment = new Environment()
    const globals = {
      ...constants,
      raise_exception: raise,
      range,
      strftime_now: (format: string) => strftime(new Date(now()), format),
      ...variables,
    }
    for (const [name, value] of Object.entries(globals)) environment.set(name, value)
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

const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
]

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']

/** Python's `strftime` in the C locale and UTC, as far as chat templates use it. Unknown directives stay. */
function strftime(date: Date, format: string): string {
  // Sun, 01 Mar 2026 23:59:07 GMT
  const [a, d, b, Y, H, M, S] = date.toUTCString().split(/\W+/)
  const m = date.toISOString().slice(5, 7)
  const parts: Readonly<Record<string, string | undefined>> = {
    a,
    d,
    b,
    Y,
    H,
    M,
    S,
    m,
    B: MONTHS[+m - 1],
    A: DAYS[date.getUTCDay()],
    '%': '%',
  }
  return format.replace(/%([a-zA-Z%])/g, (whole, letter: string) => parts[letter] ?? whole)
}
