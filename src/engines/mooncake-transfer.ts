/**
 * Fields of vLLM's MooncakeConnector. Both engines get the request at once: the prefill engine pushes the KV cache of a
 * transfer to the decode engine, which registers for it at the prefill engine's bootstrap server
 * (distributed/kv_transfer/kv_connector/v1/mooncake, examples/…/mooncake_connector_proxy.py).
 */
import { isJsonObject } from '../core/json.ts'

/** Port of the bootstrap server without `VLLM_MOONCAKE_BOOTSTRAP_PORT`. */
export const MOONCAKE_PORT = 8998

/** Route of the bootstrap server: ids of its engines by data-parallel rank. */
export const MOONCAKE_QUERY = '/query'

/** `kv_transfer_params` of the prefill leg as JSON text. */
export const mooncakePrefill = (transferId: string): string =>
  JSON.stringify({ do_remote_decode: true, do_remote_prefill: false, transfer_id: transferId })

interface MooncakeSource {
  readonly transferId: string
  /** Base URL of the prefill engine's bootstrap server. */
  readonly bootstrapUrl: string
  readonly engineId: string
}

/** `kv_transfer_params` of the decode leg as JSON text. */
export const mooncakeDecode = ({ transferId, bootstrapUrl, engineId }: MooncakeSource): string =>
  JSON.stringify({
    do_remote_decode: false,
    do_remote_prefill: true,
    remote_bootstrap_addr: bootstrapUrl,
    remote_engine_id: engineId,
    transfer_id: transferId,
  })

/** Engine ids by data-parallel rank, from the bootstrap server's answer. Empty: it is none. */
export function mooncakeEngineIds(answer: unknown): ReadonlyMap<number, string> {
  const ids = new Map<number, string>()
  if (!isJsonObject(answer)) return ids
  for (const [rank, entry] of Object.entries(answer)) {
    const id = isJsonObject(entry) ? entry['engine_id'] : undefined
    if (/^\d+$/.test(rank) && typeof id === 'string') ids.set(Number(rank), id)
  }
  return ids
}
