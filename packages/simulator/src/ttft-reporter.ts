/** Reports of an engine with the TTFT patch (vllm-ascend #12), each stage once. */
import type { EngineSettings } from './engine-options.ts'
import type { Sequence } from './sequence.ts'

/** Sends one report without waiting for an answer. Failures are ignored. */
export type ReportSink = (report: Readonly<Record<string, string | number>>) => void

/** Reports the first token of a request. `id` is the answer's id with its prefix. */
export function reportFirstToken(send: ReportSink, role: EngineSettings['role'], id: string, sequence: Sequence): void {
  const request_id = id.replace(/^chatcmpl-/, '')
  const queuedMs = sequence.scheduledAt - sequence.arrivedAt
  const computedMs = sequence.firstTokenAt - sequence.scheduledAt
  if (role === 'encode') {
    send({ role: 'encoder', request_id, enc_queue_time_ms: queuedMs })
    send({ role: 'encoder', request_id, enc_compute_time_ms: computedMs })
    return
  }
  // Work of a decode engine of a split before its first token is not prefill.
  if (role === 'decode' && sequence.spec.remote === true) return
  send({ role: 'pd', request_id, prefill_queue_time_ms: queuedMs })
  send({ role: 'pd', request_id, emb_cache_transfer_time_ms: 0, prefill_compute_time_ms: computedMs })
}

const DEFAULT_URL = 'http://127.0.0.1:28886/ttft_report'

/** Reads the report URL from the environment; null: reporting is off. Throws a TypeError for an invalid URL. */
export function reportUrl(env: Readonly<Record<string, string | undefined>>): URL | null {
  if (!/^(1|true)$/i.test(env['TTFT_ENABLED'] ?? '')) return null
  return new URL(env['VLLM_TTFT_REPORT_URL'] ?? DEFAULT_URL)
}
