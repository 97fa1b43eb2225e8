/** Mutations of TTFT reports: which stages make the sum, whose value counts, who may send them. */
import type { Mutation, Tests } from './mutation.ts'

const STAGES: Tests = {
  node: ['test/core/reports/report-store.test.ts', 'test/node/contracts/ttft.test.ts'],
  workers: ['test/workers/ttft.test.ts'],
}
const TOKEN: Tests = {
  node: ['test/node/contracts/report-token.test.ts'],
  built: ['test/node/contracts/report-token.worker.test.ts'],
}

export const reports: readonly Mutation[] = [
  {
    name: 'ttft_ms of a multimodal request needs no encoder',
    file: 'src/core/reports/ttft-report.ts',
    find: "const MEDIA_STAGES = ['enc_queue_time_ms', 'enc_compute_time_ms', ...TEXT_STAGES] as const",
    replace: 'const MEDIA_STAGES = TEXT_STAGES',
    impact: 'the sum of a request with images lacks its encoder',
    tests: STAGES,
  },
  {
    name: 'ttft_ms needs a transfer time',
    file: 'src/core/reports/ttft-report.ts',
    find: "const MEDIA_STAGES = ['enc_queue_time_ms',",
    replace: "const MEDIA_STAGES = ['emb_cache_transfer_time_ms', 'enc_queue_time_ms',",
    impact: 'requests whose engine reports no transfer never get a sum (vllm-ascend#12)',
    tests: STAGES,
  },
  {
    name: 'ttft_ms leaves out the transfer',
    file: 'src/core/reports/ttft-report.ts',
    find: 'total + (values.emb_cache_transfer_time_ms ?? 0)',
    replace: 'total',
    impact: 'the sum is smaller than its stages',
    tests: { node: ['test/core/reports/report-store.test.ts'] },
  },
  {
    name: "the encoder's value of a stage counts over that of pd",
    file: 'src/core/reports/ttft-report.ts',
    find: '{ ...meta, ...encoder, ...pd }',
    replace: '{ ...meta, ...pd, ...encoder }',
    impact: 'stages differ from those of vllm-ascend#12',
    tests: STAGES,
  },
  {
    name: 'reports need no token',
    file: 'src/api/ttft-reports.ts',
    find: "(await this.#token.find(token ?? bearer(from.request.headers) ?? '')) !== null",
    replace: "(await this.#token.find(token ?? bearer(from.request.headers) ?? '')) !== undefined",
    impact: 'anybody writes and reads reports',
    tests: TOKEN,
  },
  {
    name: 'token in the path of a report is ignored',
    file: 'src/api/ttft-reports.ts',
    find: 'this.#token.find(token ?? bearer(from.request.headers)',
    replace: 'this.#token.find(bearer(from.request.headers)',
    impact: 'engines, which send no headers, cannot report',
    tests: TOKEN,
  },
]
