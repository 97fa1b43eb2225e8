import { json, type Answer, type Incoming, type Sink } from '../answer.ts'
import { hashText } from '../block-keys.ts'
import type { Sequence } from '../sequence.ts'
import { modelOf } from './generation.ts'
import type { Choice } from './job.ts'
import { readForm, type Form } from './read-form.ts'
import { openRequest, run, runWhole, totalsOfRequest, type ServedRequest } from './served-request.ts'
import { data, DONE, eventStream } from './sse.ts'
import type { StreamOptions } from './stream-options.ts'
import { flagOf } from './body-fields.ts'
import { readSampling } from './sampling.ts'
import type { Serving } from './serving.ts'
import { badRequest, invalidBody, type Finding } from './wire-error.ts'

/** Nothing is decoded: every file counts as audio of 128 kbit/s. */
const BYTES_A_SECOND = 16_000
/** Window in seconds of a speech encoder, and the positions it computes for one. */
const WINDOW_S = 30
const WINDOW_TOKENS = 1500
/** Supported formats. vLLM knows others by name and rejects them. */
const FORMATS = ['json', 'text', 'verbose_json'] as const
const KNOWN = [...FORMATS, 'srt', 'vtt', 'diarized_json'] as const
type Format = (typeof FORMATS)[number]
/** Fields that have a default value. */
const PRESET = [
  'prompt',
  'response_format',
  'stream',
  'stream_include_usage',
  'stream_continuous_usage_stats',
  'use_beam_search',
  'n',
  'length_penalty',
  'include_stop_str_in_output',
  'temperature',
  'frequency_penalty',
  'presence_penalty',
]
const PRESETS = { transcribe: [...PRESET, 'timestamp_granularities[]'], translate: PRESET }

interface TranscriptionRequest extends ServedRequest {
  readonly task: 'transcribe' | 'translate'
  readonly format: Format
  readonly seconds: number
}

/** POST /v1/audio/transcriptions. */
export const transcriptions = (serving: Serving, incoming: Incoming): Promise<Answer> =>
  receive(serving, incoming, 'transcribe')
/** POST /v1/audio/translations. */
export const translations = (serving: Serving, incoming: Incoming): Promise<Answer> =>
  receive(serving, incoming, 'translate')

async function receive(serving: Serving, incoming: Incoming, task: TranscriptionRequest['task']): Promise<Answer> {
  const { fields, file } = readForm(incoming, PRESETS[task])
  const model = modelOf(serving, fields)
  const format = formatOf(fields)
  const options = optionsOf(fields)
  checkSeed(fields)
  if (options.stream && format === 'verbose_json') throw badRequest(`${format} format doesn't support streaming case`)
  // Each window is a separate engine request, as in vLLM.
  const input = {
    body: fields,
    model,
    prompts: windowsOf(file),
    items: [],
    sampling: readSampling(fields, ['max_completion_tokens']),
    reasoning: false,
    tool: null,
  }
  const request: TranscriptionRequest = {
    ...(await openRequest(serving, incoming, input, { prefix: `${task}-`, options })),
    task,
    format,
    seconds: file.length / BYTES_A_SECOND,
  }
  if (options.stream) return eventStream((sink) => new WindowStream(request, sink).run())
  const { sequences } = await runWhole(request, incoming)
  return written(request, sequences)
}

function formatOf(fields: Form['fields']): Format {
  const wanted = fields['response_format'] ?? 'json'
  const format = FORMATS.find((one) => one === wanted)
  if (format !== undefined) return format
  if (KNOWN.some((one) => one === wanted))
    throw badRequest('Currently only support response_format: `text`, `json`, `verbose_json` or `diarized_json`')
  // Two lists of names, as in vLLM.
  const unlike = (expected: string): Finding => ({
    type: 'literal_error',
    loc: 'body.response_format',
    message: `Input should be ${expected}`,
    input: wanted,
    expected,
  })
  throw invalidBody(unlike("'json', 'text', 'srt', 'verbose_json' or 'vtt'"), unlike("'diarized_json'"))
}

function checkSeed({ seed }: Form['fields']): void {
  if (seed === undefined || /^\s*[+-]?\d+\s*$/.test(String(seed))) return
  throw invalidBody({
    type: 'int_parsing',
    loc: 'body.seed',
    message: 'Input should be a valid integer, unable to parse string as an integer',
    input: seed,
  })
}

function optionsOf(fields: Form['fields']): StreamOptions {
  const stream = flagOf(fields, 'stream')
  const unfit = ['stream_include_usage', 'stream_continuous_usage_stats'].find(
    (name) => !stream && flagOf(fields, name),
  )
  if (unfit !== undefined) throw badRequest('Stream options can only be defined when `stream=True`.', unfit)
  const includeUsage = flagOf(fields, 'stream_include_usage')
  return { stream, includeUsage, continuousUsage: includeUsage && flagOf(fields, 'stream_continuous_usage_stats') }
}

/** Creates one prompt per window, which depends on its bytes. */
function windowsOf(file: string): Uint32Array[] {
  const size = WINDOW_S * BYTES_A_SECOND
  return Array.from({ length: Math.max(1, Math.ceil(file.length / size)) }, (_, at) => {
    const seed = hashText(file.slice(at * size, (at + 1) * size), at)
    return Uint32Array.from({ length: WINDOW_TOKENS }, (_value, i) => (seed + i) % 50_000)
  })
}

const textOf = ({ plan }: Choice, { outputs }: Sequence): string => plan.pieces.slice(0, outputs).join('')

/** vLLM returns `text` as JSON as well. */
function written(request: TranscriptionRequest, sequences: readonly Sequence[]): Answer {
  const { format, seconds, task } = request
  const texts = request.choices.map((choice, at) => textOf(choice, sequences[at]!))
  const text = texts.join('')
  if (format === 'verbose_json')
    return json(200, {
      duration: seconds,
      language: request.input.body['language'] ?? 'en',
      text,
      segments: texts.map((one, at) => segmentOf(request, one, at)),
      words: null,
    })
  return json(
    200,
    task === 'transcribe' ? { text, usage: { type: 'duration', seconds: Math.max(1, Math.ceil(seconds)) } } : { text },
  )
}

/** One segment per window; real ones are as long as the model decides. */
function segmentOf({ input, choices, seconds }: TranscriptionRequest, text: string, at: number): object {
  const end = Math.min(seconds, (at + 1) * WINDOW_S)
  const scores = { avg_logprob: -0.5, compression_ratio: 1, end, no_speech_prob: null }
  return {
    id: at,
    ...scores,
    seek: at * WINDOW_S,
    start: at * WINDOW_S,
    temperature: input.sampling.temperature,
    text,
    tokens: [...choices[at]!.plan.tokens],
  }
}

/** A stream of windows: computed concurrently, sent in order. */
class WindowStream {
  readonly #request: TranscriptionRequest
  readonly #sink: Sink
  /** Number of available tokens by window. */
  readonly #available: number[]
  #window = 0
  #sent = 0
  #total = 0

  constructor(request: TranscriptionRequest, sink: Sink) {
    this.#request = request
    this.#sink = sink
    this.#available = request.choices.map(() => 0)
  }

  run(): () => void {
    return run(this.#request, {
      token: (choice, count) => {
        this.#available[choice.index] = count
        this.#sendAvailable()
      },
      done: (sequences, aborted) => {
        if (aborted) this.#write({ delta: { content: '' }, finish_reason: 'abort', stop_reason: null })
        if (this.#request.options.includeUsage) {
          const { promptTokens, completionTokens } = totalsOfRequest(this.#request, sequences)
          this.#sink.write(
            data({
              ...this.#head([]),
              usage: {
                prompt_tokens: promptTokens,
                total_tokens: promptTokens + completionTokens,
                completion_tokens: completionTokens,
              },
            }),
          )
        }
        this.#sink.write(DONE)
        this.#sink.end()
      },
    })
  }

  #sendAvailable(): void {
    for (
      let choice = this.#request.choices[this.#window];
      choice !== undefined && this.#sent < this.#available[choice.index]!;
      choice = this.#request.choices[this.#window]
    ) {
      const { tokens, pieces, finish, stopReason } = choice.plan
      const delta = { content: pieces[this.#sent] ?? '' }
      this.#sent += 1
      this.#total += 1
      const last = this.#sent === tokens.length
      this.#write(last ? { delta, finish_reason: finish, stop_reason: stopReason } : { delta })
      if (last) this.#window += 1
      if (last) this.#sent = 0
    }
  }

  #head(choices: readonly object[]): object {
    const { id, created, task, input } = this.#request
    return {
      id,
      object: task === 'transcribe' ? 'transcription.chunk' : 'translation.chunk',
      created,
      model: input.model,
      choices,
    }
  }

  #write(choice: object): void {
    const { options, input } = this.#request
    const prompt = input.prompts.length * WINDOW_TOKENS
    const usage = { prompt_tokens: prompt, total_tokens: prompt + this.#total, completion_tokens: this.#total }
    this.#sink.write(data({ ...this.#head([choice]), ...(options.continuousUsage ? { usage } : {}) }))
  }
}
