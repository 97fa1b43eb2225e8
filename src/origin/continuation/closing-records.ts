/** Records that the gateway writes itself at the end of a stream: usage, finish reason and `[DONE]`. */
import type { Usage } from '../../core/contract/outcome.ts'
import type { JsonObject } from '../../core/json.ts'
import { dataRecord } from '../relay/sse-records.ts'
import { DONE } from '../../protocols/stream/event.ts'
import { outputChunk, usageChunk } from './output-chunk.ts'
import type { StreamState } from './stream-state.ts'

export function wholeUsage({ promptTokens, record }: StreamState, completionTokens: number): Usage {
  return { promptTokens: promptTokens ?? record.promptIds?.length ?? 0, completionTokens, cachedTokens: null }
}

export const onWire = ({ promptTokens, completionTokens }: Usage): JsonObject => ({
  prompt_tokens: promptTokens,
  total_tokens: promptTokens + completionTokens,
  completion_tokens: completionTokens,
  prompt_tokens_details: null,
})

/** Records that end a stream whose engine failed after the finish reason: usage, if requested, and `[DONE]`. */
export function closingRecords(state: StreamState): string {
  const { request, record, head } = state
  let text = ''
  if (state.usage === null) {
    state.usage = wholeUsage(state, record.tokens)
    if (request.showsUsage) text += dataRecord(usageChunk(head!, onWire(state.usage), {}))
  }
  state.done = true
  return text + dataRecord(DONE)
}

/** Ends a stream whose output is complete without another engine: a stop string, or the limit of tokens. */
export function finishRecords(state: StreamState, end: { text: string; finish: string; stop: string | null }): string {
  const { form, head } = state
  state.finished = true
  state.record.addText(end.text)
  const chunk = { text: end.text, finish: end.finish, stopReason: end.stop, ids: null }
  return dataRecord(outputChunk(head!, form, chunk)) + closingRecords(state)
}
