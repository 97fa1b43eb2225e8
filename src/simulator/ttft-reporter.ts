/** What an engine with the TTFT patch (vllm-ascend #12) reports of a request, each stage once. */
import type { EngineSettings } from './engine-options.ts'
import type { Sequence } from './sequence.ts'

/** Sends one report and forgets it: no answer is read, failures are dropped. */
export type ReportSink = (report: Readonly<Record<string, string | number>>) => void

/** The first token of a request is there. `id` as the answer has it, with its prefix. */
export function reportFirstToken(send: ReportSink, role: EngineSettings['role'], id: string, sequence: Sequence): void {
  const request_id = id.replace(/^chatcmpl-/, '')
  const queuedMs = sequence.scheduledAt - sequence.arrivedAt
  const computedMs = sequence.firstTokenAt - sequence.scheduledAt
  if (role === 'encode') {
    send({ role: 'encoder', request_id, enc_queue_time_ms: queuedMs })
    send({ role: 'encoder', request_id, enc_compute_time_ms: computedMs })
    return
  }
  // What a decode engine of a split does before its first token is no prefill.
  if (role === 'decode' && sequence.spec.remote === true) return
  send({ role: 'pd', request_id, prefill_queue_time_ms: queuedMs })
  send({ role: 'pd', request_id, emb_cache_transfer_time_ms: 0, prefill_compute_time_ms: computedMs })
}

const DEFAULT_URL = 'http://127.0.0.1:28886/ttft_report'

/** Where engines of this environment report to; null: they do not. Throws a TypeError for a URL that is none. */
export function reportUrl(env: Readonly<Record<string, string | undefined>>): URL | null {
  if (!/^(1|true)$/i.test(env['TTFT_ENABLED'] ?? '')) return null
  return new URL(env['VLLM_TTFT_REPORT_URL'] ?? DEFAULT_URL)
}
