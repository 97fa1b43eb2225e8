/** vLLM's NixlConnector in pull mode: the prefill response names its blocks, and the decode engine fetches them. */
import type { JsonObject } from '../../core/json.ts'
import { hostOf } from '../../url.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'

/**
 * Asks a prefill engine to keep its blocks. All six fields are set, because older versions read some without a
 * default.
 */
export const REMOTE_DECODE_PARAMS = JSON.stringify({
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
})

/** Without these fields the process of a NIXL engine ends when it fetches (vLLM 0.32, `pull_scheduler.py`). */
const REQUIRED_FIELDS = ['remote_engine_id', 'remote_block_ids', 'remote_port'] as const

/**
 * Parameters of the decode leg as JSON text, as the prefill engine returned them, except for an unreachable host.
 * null: the prefill engine holds no blocks (an older version, another connector), so the decode engine computes the
 * prompt.
 */
export function decodeParams(answer: JsonObject, prefill: EngineTarget, decode: EngineTarget): string | null {
  const params = answer['kv_transfer_params']
  if (typeof params !== 'object' || params === null || Array.isArray(params)) return null
  const fields = params as JsonObject
  if (Object.keys(fields).length === 0) return null
  if (
    fields['do_remote_prefill'] === true &&
    (REQUIRED_FIELDS.some((name) => fields[name] === undefined || fields[name] === null) ||
      isEmpty(fields['remote_block_ids']))
  )
    return null
  const host = hostFor(fields['remote_host'], prefill, decode)
  return JSON.stringify(host === null ? fields : { ...fields, remote_host: host })
}

/** No blocks in any group, which would also end the decode engine's process. */
const isEmpty = (blocks: unknown): boolean =>
  Array.isArray(blocks) && blocks.every((group) => Array.isArray(group) && group.length === 0)

const UNSPECIFIED: ReadonlySet<unknown> = new Set([undefined, null, '', '0.0.0.0', '::', '[::]'])

/** Replacement for the host that the engine reported; null: keep it. Only an impossible host is replaced. */
function hostFor(reported: unknown, prefill: EngineTarget, decode: EngineTarget): string | null {
  const own = hostOf(prefill.url)
  if (UNSPECIFIED.has(reported)) return own
  if (typeof reported !== 'string' || !isLoopback(reported)) return null
  // A loopback address is valid between two engines of one host.
  return own === hostOf(decode.url) || isLoopback(own) ? null : own
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
