/** Answers of engines as test/vectors has them. */
import { readFileSync } from 'node:fs'
import type { FakeAnswer } from '../../../test/kit/fake-answer.ts'

export interface RecordedAnswer {
  readonly name: string
  readonly type: string
  readonly status: number
  /** Flat. Absent: JSON. */
  readonly headers?: readonly string[]
  readonly body: string
  readonly sent?: { readonly model?: string | null; readonly adapter?: string | null; readonly path?: string }
  readonly means: { readonly kind: string; readonly what?: string; readonly lasts?: string; readonly scope?: string }
}

const file = new URL('../../../test/vectors/engine-answers.json', import.meta.url)
const { answers } = JSON.parse(readFileSync(file, 'utf8')) as { readonly answers: readonly RecordedAnswer[] }

export const answersOf = (type: string): readonly RecordedAnswer[] => answers.filter((one) => one.type === type)

/** Begins like a stream. */
export const isStream = ({ headers = [] }: RecordedAnswer): boolean =>
  headers.some((text) => text.includes('event-stream'))

/** @param model configured name of the pool, which stands for `m` of the recording */
export function recordedAnswer(answer: RecordedAnswer, model: string): FakeAnswer {
  const { status, headers = ['content-type', 'application/json'] } = answer
  const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1]!]] : []))
  return { status, headers: Object.fromEntries(pairs) as Record<string, string>, body: withModel(answer.body, model) }
}

/** Names in quotes of any kind, and bare ones after `name=`. */
const withModel = (body: string, model: string): string =>
  body.replace(/(['`"]|\\")m\1/g, (_, quote: string) => quote + model + quote).replace(/name=m\b/g, `name=${model}`)
