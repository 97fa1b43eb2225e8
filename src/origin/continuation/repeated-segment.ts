/** Events of an engine that repeats the request of a stream: what the client has is compared and not sent again. */
import { RepeatedDeltas, SentDeltas } from '../../core/continuation/sent-deltas.ts'
import type { JsonObject } from '../../core/json.ts'
import { dataRecord } from '../relay/sse-records.ts'
import { completeUsage, usageOfPromptTokens } from '../../protocols/reported-usage.ts'
import { headOf } from './output-chunk.ts'
import { withoutIds, type Chunk } from '../../protocols/read-chunk.ts'
import { GAVE_UP } from '../../protocols/stream/event.ts'
import { LaterSegment } from './later-segment.ts'
import { updateState, withholds, type StreamState } from './stream-state.ts'
import { addDeltas, restOfChoice, type ChoiceRest } from '../../protocols/choice-deltas.ts'

export class RepeatedSegment extends LaterSegment {
  readonly #repeated: RepeatedDeltas
  /** Tokens that the earlier engines sent. */
  readonly #known: number
  readonly #isNew: boolean
  #tokens = 0

  constructor(state: StreamState) {
    super(state)
    this.#repeated = new RepeatedDeltas(state.deltas ?? new SentDeltas())
    this.#known = state.record.tokens
    this.#isNew = state.head === null
  }

  protected output(chunk: Chunk): string {
    const { state } = this
    state.head ??= headOf(chunk.json)
    const isAborted = chunk.finish !== null && GAVE_UP.has(chunk.finish)
    const at = this.#tokens
    const ids = this.#newIds(chunk.ids ?? [])
    const rest = ids === null ? null : restOfChoice(choiceOf(chunk.json), this.#repeated, this.#isNew)
    if (ids === null || rest === null || (chunk.finish !== null && !isAborted && !this.#hasAll))
      return this.differs('replay_differs')
    updateState(state, chunk, at)
    state.record.addIds(ids)
    if (withholds(state, chunk)) {
      this.failure = 'reset'
      return ''
    }
    if (rest.content !== '') state.record.addText(rest.content)
    if (state.deltas !== null) addDeltas(state.deltas, rest.fields)
    if (isAborted) this.failure = 'reset'
    else if (chunk.finish !== null) state.finished = true
    const finish = isAborted ? null : chunk.finish
    if (finish === null && rest.isEmpty && (ids.length === 0 || !state.request.showsIds)) return ''
    return this.#write(chunk, { rest, ids, finish })
  }

  get #hasAll(): boolean {
    return this.#tokens >= this.#known && this.#repeated.isComplete
  }

  /** Compares ids with those of the earlier engines. Returns the further ones; null: they differ. */
  #newIds(ids: readonly number[]): readonly number[] | null {
    const from = this.#tokens
    this.#tokens += ids.length
    const known = Math.max(0, Math.min(ids.length, this.#known - from))
    const before = this.state.record.ids
    for (let at = 0; at < known; at++) if (ids[at] !== before[from + at]) return null
    return ids.slice(known)
  }

  #write({ json }: Chunk, { rest, ids, finish }: RepeatedOutput): string {
    const { head, request } = this.state
    const choice = choiceOf(json)
    const { prompt_token_ids: promptIds } = json
    const payload = JSON.stringify({
      ...json,
      ...head,
      ...(promptIds === undefined || this.#isNew ? {} : { prompt_token_ids: null }),
      choices: [{ ...choice, ...rest.fields, finish_reason: finish, token_ids: ids }],
    })
    return dataRecord(request.showsIds ? payload : withoutIds(payload))
  }

  protected usageRecord({ json }: Chunk): string {
    const { state } = this
    this.usage = state.usage = completeUsage(usageOfPromptTokens(json['usage'] as JsonObject))
    return state.request.showsUsage ? dataRecord(JSON.stringify({ ...json, ...state.head })) : ''
  }
}

interface RepeatedOutput {
  readonly rest: ChoiceRest
  readonly ids: readonly number[]
  readonly finish: string | null
}

const choiceOf = (json: JsonObject): JsonObject => (json['choices'] as readonly JsonObject[])[0]!
