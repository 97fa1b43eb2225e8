/** Opens compiled vocabularies, each once at the start, so that no request waits for one. */
import type { Config } from './config.ts'
import { PieceTokenizer } from './core/tokens/piece-tokenizer.ts'
import type { ChatTemplate, ExactTokenizer } from './core/tokens/prompt-analyzer.ts'
import { Vocabulary, VocabularyError, type VocabularyHeader, type VocabularySource } from './core/tokens/vocabulary.ts'
import { isJsonObject } from './core/json.ts'
import { piecesLeft } from './api/json-complexity.ts'
import { type ChatMessage, type ChatPrompt } from './core/tokens/chat.ts'
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'

/* Chat templates: the model's Jinja text, rendered as in vLLM. */

/* Environment of chat templates in vLLM, which renders them with Jinja as `transformers` configures it. */

/**
 * Compiles a template for repeated use. It differs from the library's `Template` in `strftime_now`, which there uses
 * the machine's language and time zone; engines use English and, in containers, UTC. Throws an Error with the parser's
 * message if the text is no template.
 * @param now milliseconds since the epoch
 */
export function jinja(text: string, now: () => number): (variables: Readonly<Record<string, unknown>>) => string {
  const program = parse(tokenize(text, { lstrip_blocks: true, trim_blocks: true }))
  return (variables) => {
    const environment = new Environment()
    const known = {
      ...constants,
      raise_exception: raise,
      range,
      strftime_now: (format: string) => strftime(new Date(now()), format),
      ...variables,
    }
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

/** Throws an Error with the parser's message if the text is no template. */
export function compileTemplate(
  text: string,
  specials: Readonly<Record<string, string>>,
  now: () => number = Date.now,
): ChatTemplate {
  const render = jinja(text, now)
  const shape: MessageShape = { listed: wantsParts(text), developer: /\bdeveloper\b/.test(text) }
  return (chat) => {
    if (chat.messages.reduce((sum, { parts }) => sum + Math.max(1, parts.length), 0) > MOST_PARTS)
      throw new Error(`it has more than ${MOST_PARTS} messages or parts of messages`)
    const read = callReader()
    const rendered = render({
      ...specials,
      messages: chat.messages.map((message) => shaped(message, shape, read)),
      tools: chat.tools,
      ...chat.variables,
    })
    return chat.variables['continue_final_message'] === true ? cutAfterLast(rendered, chat) : rendered
  }
}

/** The interpreter takes up to 65 us for each: ten thousand parts of one letter delayed other requests by 0.7 s. */
const MOST_PARTS = 4096

/** Limit of the arguments of all calls in one chat. */
const MOST_ARGUMENT_CHARS = 1024 * 1024
/**
 * Limit of their JSON pieces. As values of a template each costs five times as much as its parsing; this many take
 * 0.05 s.
 */
const MOST_ARGUMENT_PIECES = 100_000
const utf8 = new TextEncoder()

interface MessageShape {
  /** Content is a list of parts instead of one string. */
  readonly listed: boolean
  /** The template knows the role `developer`. For other templates engines rename it to `system`. */
  readonly developer: boolean
}

/**
 * Whether the template loops over the parts of a message's content. vLLM detects it from the syntax tree
 * (`_detect_content_format`); the loops in use all have one of these forms.
 */
function wantsParts(text: string): boolean {
  return /\bfor\s+\w+\s+in\s+(?:\w+\.content|\w+(?:\[[^\]]*\])?\[\s*['"]content['"]\s*\]|content)\b(?!\s*\.)/.test(text)
}

function shaped(
  { role, parts, extra }: ChatMessage,
  { listed, developer }: MessageShape,
  read: (call: unknown) => unknown,
): Record<string, unknown> {
  const content = listed ? parts.map((text) => ({ type: 'text', text: String(text) })) : parts.join('\n')
  const { tool_calls: calls, ...rest } = extra
  return {
    role: role === 'developer' && !developer ? 'system' : role,
    content,
    ...rest,
    ...(Array.isArray(calls) && { tool_calls: calls.map(read) }),
  }
}

/**
 * Templates expect arguments as an object; on the wire they are JSON text. Throws if all arguments of a chat together
 * are too long.
 */
function callReader(): (call: unknown) => unknown {
  let left = MOST_ARGUMENT_CHARS
  let pieces = MOST_ARGUMENT_PIECES
  return (call) => {
    if (!isJsonObject(call) || !isJsonObject(call['function'])) return call
    let args: unknown = call['function']['arguments'] ?? ''
    if (typeof args === 'string') {
      left -= args.length
      if (left >= 0) pieces = piecesLeft(utf8.encode(args), pieces)
      if (left < 0 || pieces < 0)
        throw new Error('the arguments of its tool calls are more than 1 MB or 100,000 pieces')
      args = parsed(args || '{}')
    }
    return { ...call, function: { ...call['function'], arguments: args } }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Characters that a template may add after the last message. */
const MOST_AFTER_LAST = 64

/**
 * `continue_final_message`: the prompt ends with the last message's text, as in transformers' `apply_chat_template`.
 * Only the end is searched, because a search through a repetitive text takes minutes.
 */
function cutAfterLast(rendered: string, chat: ChatPrompt): string {
  const last = String(chat.messages.at(-1)?.parts.at(-1) ?? '')
  const text = last.trim()
  for (let end = rendered.length; end >= rendered.length - MOST_AFTER_LAST && end >= text.length; end--) {
    if (!rendered.endsWith(text, end)) continue
    const spaced = last.trimStart()
    return rendered.slice(0, rendered.startsWith(spaced, end - text.length) ? end - text.length + spaced.length : end)
  }
  throw new Error('the message to continue is not at the end')
}

/** Tokenizer and chat template of a model. */
export interface OpenVocabulary {
  readonly tokenizer: ExactTokenizer
  /** null: the vocabulary has none, so chats are measured in bytes. */
  readonly template: ChatTemplate | null
  readonly header: VocabularyHeader
  /** Number of ids, including added tokens and gaps. */
  readonly size: number
}

const encodeUtf8 = (text: string, into: Uint8Array): number => utf8.encodeInto(text, into).written

/** Reads a compiled vocabulary, gzipped or not. Rejects with a VocabularyError that names the next step. */
export async function openVocabulary(file: Uint8Array): Promise<OpenVocabulary> {
  const vocabulary = new Vocabulary(isGzip(file) ? await inflate(file) : file)
  return {
    tokenizer: new PieceTokenizer({ vocabulary, encodeUtf8 }),
    template: openTemplate(vocabulary.header),
    header: vocabulary.header,
    size: vocabulary.size,
  }
}

/** Names of the vocabularies that the pools use. */
export function tokenizersOf({ clusters }: Pick<Config, 'clusters'>): string[] {
  return clusters.flatMap(({ pools }) => pools.map((pool) => pool.tokenizer)).filter((name) => name !== null)
}

/** Opens every named vocabulary once. Rejects with a VocabularyError that names the missing or invalid one. */
export async function openVocabularies(
  names: readonly string[],
  source: VocabularySource,
): Promise<ReadonlyMap<string, OpenVocabulary>> {
  const opened = new Map<string, OpenVocabulary>()
  for (const name of new Set(names)) {
    try {
      opened.set(name, await openVocabulary(await source(name)))
    } catch (error) {
      throw new VocabularyError(`vocabulary '${name}': ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return opened
}

function openTemplate({ template, specials }: VocabularyHeader): ChatTemplate | null {
  if (template === null) return null
  try {
    return compileTemplate(template, specials)
  } catch (error) {
    throw new VocabularyError(
      `its chat template cannot be parsed (${error instanceof Error ? error.message : String(error)}): compile ` +
        'it with --no-template',
    )
  }
}

const isGzip = (file: Uint8Array): boolean => file[0] === 0x1f && file[1] === 0x8b

async function inflate(file: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([file as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream('gzip'))
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer())
  } catch {
    throw new VocabularyError('the file is cut or damaged: compile it again')
  }
}
