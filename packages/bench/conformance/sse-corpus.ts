/**
 * Streams as engines send them, and variations: a recording, and what else the standard (WHATWG HTML, 9.2) allows or a
 * broken connection causes. `corpus.json` has the result of a correct reader for each.
 */

export interface StreamCase {
  readonly file: string
  readonly says: string
  /** Derived from a recording. */
  readonly made: boolean
  /** Events that carry data, `[DONE]` included. */
  readonly data_events: number
  readonly done: boolean
  /** Complete text of choice 0, or of the response. */
  readonly text: string
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number } | null
  /** The stream reports a failure of the engine. */
  readonly error: boolean
  /** It ends at the end of an event. */
  readonly whole: boolean
}

const descriptions: Readonly<Record<string, string>> = {
  'chat.sse': 'a chat without usage',
  'chat-usage.sse': 'a chat with the usage record before [DONE]',
  'chat-usage-each.sse': 'usage on every event',
  'completion.sse': 'a completion that echoes umlauts, an emoji of two code points and CJK',
  'tools.sse': 'a tool call in pieces',
  'responses.sse': 'the responses API: named events, no [DONE]',
  'messages.sse': 'the messages API: named events, no [DONE]',
  'aborted.sse': 'an engine put to pause ends its streams with finish_reason abort and a clean [DONE]',
  'engine-died.sse': 'the engine core died: an error event, then [DONE]',
  'busy.sse': 'an engine that was busy after all: 200, and nothing but an error event',
  'comments.sse': 'comments before, between and inside events',
  'crlf.sse': 'lines that end in CRLF',
  'no-space.sse': 'no space after the colon',
  'fields.sse': 'event, id and retry fields, and one nobody knows',
  'lines.sse': 'data over several lines',
  'bom.sse': 'a byte order mark in front',
  'quoted-usage.sse': 'text that speaks of usage',
  'no-done.sse': 'ends between two events, without [DONE]',
  'cut.sse': 'ends in the middle of an event',
}

/** Variations of the recorded completion. */
export function variants(recorded: string): Record<string, string> {
  const events = recorded.split('\n\n').slice(0, -1)
  const each = (change: (event: string, at: number) => string) =>
    events.map((event, at) => `${change(event, at)}\n\n`).join('')
  const quoted = String.raw`\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9}, \"usage\": {`
  return {
    'comments.sse': `: ping\n\n:\n\n${each((event, at) => `: before ${at}\n${event}\n:after`)}: end\n\n`,
    'crlf.sse': recorded.replaceAll('\n', '\r\n'),
    'no-space.sse': recorded.replaceAll('data: ', 'data:'),
    'fields.sse': each((event, at) => `event: message\nid: ${at}\nretry: 3000\nfoo: data: no\n${event}`),
    'lines.sse': each((event) => event.replace('"object"', '\ndata: "object"')),
    'bom.sse': `\ufeff${recorded}`,
    'quoted-usage.sse': recorded.replace('"text":"', `"text":"${quoted}`),
    'no-done.sse': each((event) => event).replace(/data: \[DONE\]\n\n$/, ''),
    'cut.sse': recorded.slice(0, recorded.lastIndexOf('"usage"') + 12),
  }
}

/** The list of cases from the files. Unknown files are omitted. */
export function describeStreams(files: Readonly<Record<string, string>>, made: ReadonlySet<string>): StreamCase[] {
  return Object.keys(descriptions)
    .filter((file) => files[file] !== undefined)
    .map((file) => describe(file, files[file]!, made.has(file)))
}

function describe(file: string, text: string, made: boolean): StreamCase {
  const { data, whole } = parseEvents(text)
  const values = data.filter((entry) => entry !== '[DONE]').map((entry) => JSON.parse(entry) as Chunk)
  return {
    file,
    says: descriptions[file]!,
    made,
    data_events: data.length,
    done: data.at(-1) === '[DONE]',
    text: values.map(textOf).join(''),
    usage: values.map(usageOf).findLast((usage) => usage !== null) ?? null,
    error: values.some((value) => value.error !== undefined && value.error !== null),
    whole,
  }
}

/** A simple reader of whole texts, line by line as in the standard; slow on purpose. */
function parseEvents(text: string): { data: string[]; whole: boolean } {
  const lines = text.replace(/^\ufeff/, '').split(/\r\n|\n|\r/)
  const unfinished = lines.pop() !== ''
  const data: string[] = []
  let pending: string[] = []
  let open = false
  for (const line of lines) {
    if (line === '') {
      if (pending.length > 0) data.push(pending.join('\n'))
      pending = []
      open = false
      continue
    }
    open = true
    if (line.startsWith('data:')) pending.push(line.slice(5).replace(/^ /, ''))
  }
  return { data, whole: !unfinished && !open }
}

interface Chunk {
  readonly choices?: readonly {
    readonly index: number
    readonly text?: string
    readonly delta?: { readonly content?: string | null }
  }[]
  readonly delta?: unknown
  readonly type?: string
  readonly usage?: TokenCounts | null
  readonly message?: { readonly usage?: TokenCounts }
  readonly response?: { readonly usage?: TokenCounts | null }
  readonly error?: unknown
}

interface TokenCounts {
  readonly prompt_tokens?: number
  readonly completion_tokens?: number
  readonly input_tokens?: number
  readonly output_tokens?: number
}

function textOf({ choices, delta, type }: Chunk): string {
  if (type === 'response.output_text.delta') return String(delta)
  if (type === 'content_block_delta') return (delta as { text?: string }).text ?? ''
  const choice = choices?.find(({ index }) => index === 0)
  return choice?.text ?? choice?.delta?.content ?? ''
}

function usageOf({ usage, message, response }: Chunk): StreamCase['usage'] {
  const counts = usage ?? message?.usage ?? response?.usage ?? null
  if (counts === null) return null
  return {
    prompt_tokens: counts.prompt_tokens ?? counts.input_tokens ?? 0,
    completion_tokens: counts.completion_tokens ?? counts.output_tokens ?? 0,
  }
}
