/** Reads the traces of alibaba-edu/qwen-bailian-usagetraces-anon. */
import { chainedKeys, numberIn, numbersIn } from './trace-fields.ts'
import { objectLines } from './trace-lines.ts'
import type { Trace, TraceRequest } from './trace.ts'

/** Tokens of a block, by the trace's description. */
const BLOCK_TOKENS = 16

/** Parent of a first turn. */
const NONE = -1

interface Chat {
  readonly id: number
  readonly parent: number
  readonly request: Omit<TraceRequest, 'session'>
}

/**
 * One JSON object per line: `chat_id`, `parent_chat_id` (-1: none), `timestamp` in seconds, `input_length`,
 * `output_length`, `hash_ids` of 16 tokens. A turn has the whole prompt. The trace does not say when answers ended, so
 * turns are sent at its times and not after the previous answer. Throws a TraceError for an invalid line.
 */
export function bailianTrace(name: string, text: string, limit: number): Trace {
  const chats: Chat[] = []
  for (const { row, line } of objectLines(text)) {
    chats.push(chatOf(row as Readonly<Record<string, unknown>>, line))
    if (chats.length >= limit) break
  }
  const parents = new Map(chats.map(({ id, parent }) => [id, parent]))
  const firstMs = chats.reduce((first, { request }) => Math.min(first, request.atMs), Infinity)
  const requests = chats.map(({ id, request }) => ({
    ...request,
    atMs: request.atMs - firstMs,
    session: `chat-${rootOf(id, parents)}`,
  }))
  return { name, blockTokens: BLOCK_TOKENS, requests: requests.sort((one, other) => one.atMs - other.atMs) }
}

function chatOf(row: Readonly<Record<string, unknown>>, line: number): Chat {
  const number = (field: string, min = 0) => numberIn(row, field, { line, min })
  const promptTokens = Math.max(1, Math.floor(number('input_length')))
  const ids = numbersIn(row, 'hash_ids', { line }).slice(0, Math.floor(promptTokens / BLOCK_TOKENS))
  return {
    id: number('chat_id'),
    parent: row['parent_chat_id'] === undefined ? NONE : number('parent_chat_id', NONE),
    request: {
      atMs: 1_000 * number('timestamp'),
      promptTokens,
      outputTokens: Math.max(1, Math.floor(number('output_length'))),
      blocks: chainedKeys(ids, ''),
      chain: null,
      thinkMs: 0,
    },
  }
}

/** First chat of a conversation. If the file begins within one, its turns share the missing parent. */
function rootOf(id: number, parents: ReadonlyMap<number, number>): number {
  const seen = new Set<number>()
  let root = id
  for (;;) {
    const parent = parents.get(root) ?? NONE
    if (parent === NONE || seen.has(parent)) return root
    seen.add(root)
    root = parent
  }
}
