/**
 * Fields of SGLang's split requests. Both engines get the same request at once: the decode engine finds the KV cache at
 * the bootstrap server of the prefill engine, and the room is the transfer (disaggregation/common/conn.py).
 */

/** Port of the bootstrap server without `--disaggregation-bootstrap-port`. */
export const BOOTSTRAP_PORT = 8998

/** Names of the fields that choose a transfer. */
export const BOOTSTRAP_FIELDS = [
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'disagg_prefill_dp_rank',
] as const

interface Bootstrap {
  /** Of the prefill engine. */
  readonly host: string
  readonly port: number
  /** A number below 2^53 that no other transfer has. */
  readonly room: number
}

/** Fields of both legs as JSON texts. */
export const bootstrapFields = ({ host, port, room }: Bootstrap): Readonly<Record<string, string>> => ({
  bootstrap_host: JSON.stringify(host),
  bootstrap_port: String(port),
  bootstrap_room: String(room),
})

/** Field of the decode leg with the data-parallel rank of the prefill. Without it, the rank is room modulo N. */
export const prefillRankField = (rank: number): Readonly<Record<string, string>> => ({
  disagg_prefill_dp_rank: String(rank),
})
