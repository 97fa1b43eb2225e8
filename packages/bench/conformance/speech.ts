/** Recorded uploads: speech to transcribe or translate, and invalid requests. */
import type { Form, FormFile } from './form.ts'
import type { RecordedRequest } from './vector.ts'

type Requests = Readonly<Record<string, RecordedRequest>>
type Fields = Readonly<Record<string, string | undefined>>

const model = 'tiny'
const second: FormFile = { sound: 1 }
/** Random weights end at once with greedy sampling. */
const drawn: Fields = { language: 'en', temperature: '1', seed: '7', max_completion_tokens: '12' }

export const transcriptions = '/v1/audio/transcriptions'
export const translations = '/v1/audio/translations'

const post = (path: string, form: Form): RecordedRequest => ({ method: 'POST', path, form })
const fieldsOf = (fields: Fields): Form =>
  Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]))
const receive = (more: Fields = {}, file: FormFile = second) =>
  post(transcriptions, [...fieldsOf({ model, ...drawn, ...more }), ['file', file]])
const translate = (more: Fields = {}, file: FormFile = second) =>
  post(translations, [...fieldsOf({ model, ...drawn, ...more }), ['file', file]])
const usage = { stream: 'true', stream_include_usage: 'true' }

export const speech: Requests = {
  speech: receive(),
  'speech-text': receive({ response_format: 'text' }),
  'speech-verbose': receive({ response_format: 'verbose_json' }),
  'speech-guessed': receive({ language: undefined }),
  'speech-prompt': receive({ prompt: 'hello' }),
  'speech-windows': receive({}, { sound: 40 }),
  'speech-windows-verbose': receive({ response_format: 'verbose_json' }, { sound: 40 }),
  'speech-stream': receive({ stream: 'true' }),
  'speech-stream-usage': receive(usage),
  'speech-stream-usage-each': receive({ ...usage, stream_continuous_usage_stats: 'true' }),
  'speech-stream-windows': receive(usage, { sound: 40 }),
  'speech-file-first': post(transcriptions, [['file', second], ...fieldsOf({ ...drawn, model })]),
  translation: translate(),
  'translation-verbose': translate({ response_format: 'verbose_json' }),
  'translation-stream': translate(usage),
}

export const speechMistakes: Requests = {
  'speech-no-key': { ...receive(), key: 'none' },
  'speech-wrong-key': { ...receive(), key: 'wrong' },
  'speech-no-model': receive({ model: undefined }),
  'speech-unknown-model': receive({ model: 'nope' }),
  'translation-unknown-model': translate({ model: 'nope', stream: 'true' }),
  'speech-json': { method: 'POST', path: transcriptions, json: { model } },
  'speech-no-file': post(transcriptions, fieldsOf({ model })),
  'speech-file-is-text': post(transcriptions, fieldsOf({ model, file: 'hello' })),
  'speech-no-sound': receive({}, { text: 'This is no sound.' }),
  'speech-format-unknown': receive({ response_format: 'xml' }),
  'speech-format-srt': receive({ response_format: 'srt' }),
  'speech-format-vtt': translate({ response_format: 'vtt' }),
  'speech-verbose-stream': receive({ response_format: 'verbose_json', stream: 'true' }),
  'speech-usage-alone': receive({ stream_include_usage: 'true' }),
  'speech-stream-unknown': receive({ stream: 'maybe' }),
  'speech-language-unknown': receive({ language: 'xx' }),
  'speech-temperature-negative': receive({ temperature: '-1' }),
  'speech-seed-unknown': receive({ seed: 'seven' }),
}

/** Responses of the gateway itself. */
export const refusedSpeech: Readonly<Record<string, number>> = {
  'speech-no-key': 401,
  'speech-wrong-key': 401,
  'speech-no-model': 400,
  'speech-unknown-model': 404,
  'translation-unknown-model': 404,
  'speech-json': 415,
}

/** Never sent to an engine alone: forms that two parsers may read differently, or that could end it. */
export const hostileSpeech: Readonly<Record<string, readonly [status: number, request: RecordedRequest]>> = {
  'two models': [
    400,
    post(transcriptions, [
      ['model', model],
      ['model', 'nope'],
      ['file', second],
    ]),
  ],
  'a model that is a file': [
    400,
    post(transcriptions, [
      ['model', { text: model }],
      ['file', second],
    ]),
  ],
  'transfer parameters': [
    400,
    post(transcriptions, [
      ['model', model],
      ['kv_transfer_params', '{"do_remote_prefill":true}'],
      ['file', second],
    ]),
  ],
  'transfer parameters among others': [
    400,
    post(transcriptions, [
      ['model', model],
      ['vllm_xargs', '{"kv_transfer_params":"x"}'],
      ['file', second],
    ]),
  ],
  'no boundary': [415, { ...receive(), headers: { 'content-type': 'multipart/form-data' } }],
}

/** The largest upload that a gateway accepts, which is more than the engine does. */
export const tooMuchSpeech = receive({}, { sound: 1700 })
/** The output runs for two windows with the maximum number of tokens. */
export const endlessSpeech = receive({ max_completion_tokens: undefined, stream: 'true' }, { sound: 40 })
