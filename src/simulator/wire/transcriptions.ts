import { json, type Answer, type Incoming, type Sink } from '../answer.ts'
import { hashText } from '../block-keys.ts'
import type { Sequence } from '../sequence.ts'
import { modelOf } from './generation.ts'
import type { Choice } from './job.ts'
import { readForm, type Form } from './read-form.ts'
import { openReply, run, runWhole, totalsOfReply, type Reply } from './reply.ts'
import { flagOf, readSampling } from './sampling.ts'
import type { Serving } from './serving.ts'
import { data, DONE, eventStream } from './sse.ts'
import type { StreamOptions } from './stream-options.ts'
import { runningUsage } from './usage.ts'
import { badRequest } from './wire-error.ts'

/** Nothing is decoded: a file is taken for sound of 128 kbit/s. */
const BYTES_A_SECOND = 16_000
/** What an encoder of speech reads at a time, and the positions it makes of that. */
const WINDOW_S = 30
const WINDOW_TOKENS = 1500
const FORMATS = ['json', 'text', 'verbose_json', 'srt', 'vtt'] as const
type Format = (typeof FORMATS)[number]

interface Heard extends Reply {
  readonly task: 'transcribe' | 'translate'
  readonly format: Format
  readonly seconds: number
}

/** POST /v1/audio/transcriptions. */
export const transcriptions = (serving: Serving, incoming: Incoming): Promise<Answer> => hear(serving, incoming, 'transcribe')
/** POST /v1/audio/translations. */
export const translations = (serving: Serving, incoming: Incoming): Promise<Answer> => hear(serving, incoming, 'translate')

async function hear(serving: Serving, incoming: Incoming, task: Heard['task']): Promise<Answer> {
  const { fields, file } = readForm(incoming)
  const model = modelOf(serving, fields)
  const format = formatOf(fields)
  const options = optionsOf(fields)
  if (options.stream && format !== 'json' && format !== 'text') throw badRequest(`${format} format doesn't support streaming case`)
  // Each window is a request of its own to the engine, as in vLLM.
  const ask = { body: fields, model, prompts: windowsOf(file), items: [], sampling: readSampling(fields, ['max_completion_tokens']), reasoning: false, tool: null }
  const reply: Heard = { ...(await openReply(serving, incoming, ask, { prefix: `${task}-`, options })), task, format, seconds: Math.max(1, Math.ceil(file.length / BYTES_A_SECOND)) }
  if (options.stream) return eventStream((sink) => new Windows(reply, sink).run())
  const { sequences } = await runWhole(reply, incoming)
  return written(reply, sequences)
}

function formatOf(fields: Form['fields']): Format {
  const wanted = fields['response_format'] ?? 'json'
  const format = FORMATS.find((one) => one === wanted)
  if (format === undefined) throw badRequest(`Currently only support response_format: ${FORMATS.map((one) => `\`${one}\``).join(', ')}`)
  return format
}

function optionsOf(fields: Form['fields']): StreamOptions {
  const stream = flagOf(fields, 'stream')
  const unfit = ['stream_include_usage', 'stream_continuous_usage_stats'].find((name) => !stream && flagOf(fields, name))
  if (unfit !== undefined) throw badRequest('Stream options can only be defined when `stream=True`.', unfit)
  const includeUsage = flagOf(fields, 'stream_include_usage')
  return { stream, includeUsage, continuousUsage: includeUsage && flagOf(fields, 'stream_continuous_usage_stats') }
}

/** A prompt for each window, which depends on what is heard there. */
function windowsOf(file: string): Uint32Array[] {
  const size = WINDOW_S * BYTES_A_SECOND
  return Array.from({ length: Math.max(1, Math.ceil(file.length / size)) }, (_, at) => {
    const seed = hashText(file.slice(at * size, (at + 1) * size), at)
    return Uint32Array.from({ length: WINDOW_TOKENS }, (_value, i) => (seed + i) % 50_000)
  })
}

const textOf = ({ plan }: Choice, { outputs }: Sequence): string => plan.pieces.slice(0, outputs).join('')

/** vLLM says `text` as JSON too. */
function written(reply: Heard, sequences: readonly Sequence[]): Answer {
  const { format, seconds, task } = reply
  const texts = reply.choices.map((choice, at) => textOf(choice, sequences[at]!))
  const text = texts.join('')
  const segments = texts.map((one, id) => ({ id, seek: id * WINDOW_S, start: id * WINDOW_S, end: Math.min(seconds, (id + 1) * WINDOW_S), temperature: reply.ask.sampling.temperature, text: one }))
  if (format === 'verbose_json') return json(200, { duration: String(seconds), language: reply.ask.body['language'] ?? 'en', text, segments, words: null })
  if (format === 'srt' || format === 'vtt') return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: subtitles(format, segments) }
  return json(200, task === 'transcribe' ? { text, usage: { type: 'duration', seconds } } : { text })
}

function subtitles(format: 'srt' | 'vtt', segments: readonly { readonly start: number; readonly end: number; readonly text: string }[]): string {
  const mark = format === 'srt' ? ',' : '.'
  const time = (seconds: number): string => `${[seconds / 3600, (seconds / 60) % 60, seconds % 60].map((part) => String(Math.floor(part)).padStart(2, '0')).join(':')}${mark}000`
  const parts = segments.map(({ start, end, text }, at) => `${format === 'srt' ? `${at + 1}\n` : ''}${time(start)} --> ${time(end)}\n${text.trim()}`)
  return `${[...(format === 'vtt' ? ['WEBVTT'] : []), ...parts].join('\n\n')}\n`
}

/** A stream of windows: they are computed side by side, and told one after the other. */
class Windows {
  readonly #reply: Heard
  readonly #sink: Sink
  /** Tokens that there are, by window. */
  readonly #made: number[]
  #window = 0
  #told = 0
  #all = 0

  constructor(reply: Heard, sink: Sink) {
    this.#reply = reply
    this.#sink = sink
    this.#made = reply.choices.map(() => 0)
  }

  run(): () => void {
    return run(this.#reply, {
      token: (choice, count) => {
        this.#made[choice.index] = count
        this.#tell()
      },
      done: (sequences, aborted) => {
        if (aborted) this.#write({ delta: { content: '' }, finish_reason: 'abort', stop_reason: null })
        if (this.#reply.options.includeUsage) {
          const { promptTokens, completionTokens } = totalsOfReply(this.#reply, sequences)
          this.#sink.write(data({ ...this.#head([]), usage: { prompt_tokens: promptTokens, total_tokens: promptTokens + completionTokens, completion_tokens: completionTokens } }))
        }
        this.#sink.write(DONE)
        this.#sink.end()
      },
    })
  }

  #tell(): void {
    for (let choice = this.#reply.choices[this.#window]; choice !== undefined && this.#told < this.#made[choice.index]!; choice = this.#reply.choices[this.#window]) {
      const { tokens, pieces, finish, stopReason } = choice.plan
      const delta = { content: pieces[this.#told] ?? '' }
      this.#told += 1
      this.#all += 1
      const last = this.#told === tokens.length
      this.#write(last ? { delta, finish_reason: finish, stop_reason: stopReason } : { delta })
      if (last) this.#window += 1
      if (last) this.#told = 0
    }
  }

  #head(choices: readonly object[]): object {
    const { id, created, task, ask } = this.#reply
    return { id, object: task === 'transcribe' ? 'transcription.chunk' : 'translation.chunk', created, model: ask.model, choices }
  }

  #write(choice: object): void {
    const { continuousUsage } = this.#reply.options
    this.#sink.write(data({ ...this.#head([choice]), ...(continuousUsage ? { usage: runningUsage(this.#reply.ask.prompts.length * WINDOW_TOKENS, this.#all) } : {}) }))
  }
}
