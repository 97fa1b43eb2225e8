/** What a scripted engine answers: a text, or a call of one tool; and the counts it reports. */

export interface Answer {
  readonly text: string
  readonly call: ToolCall | null
}

export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

/** Tokens of a prompt and its answer, counted by the engine. */
export interface Counts {
  readonly prompt: number
  readonly cached: number
  /** Tokens of whole blocks that this prompt added to the cache. */
  readonly created: number
  readonly output: number
}

/** How one protocol writes answers. */
export interface AnswerWriter {
  /** Body of an answer that is no stream. */
  whole(answer: Answer, counts: Counts, options: AnswerOptions): object
  /** Events of a stream, in order. */
  events(answer: Answer, counts: Counts, options: AnswerOptions): readonly string[]
  /** Number of events until the first output, that included. */
  readonly untilOutput: number
  /** Error event, as vLLM writes it in a stream. */
  error(message: string): string
}

export interface AnswerOptions {
  /** Of the response. Claude Code merges answers of equal ids. */
  readonly id: string
  readonly model: string
  /** `stream_options.include_usage` of chats. */
  readonly includeUsage: boolean
}

/** Pieces of a text, as tokens come. */
export function pieces(text: string, chars = 16): string[] {
  const found: string[] = []
  for (let at = 0; at < text.length; at += chars) found.push(text.slice(at, at + chars))
  return found
}

export const data = (body: object | string): string =>
  `data: ${typeof body === 'string' ? body : JSON.stringify(body)}\n\n`

export const named = (type: string, fields: object): string => `event: ${type}\n${data({ type, ...fields })}`
