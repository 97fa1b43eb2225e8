import { AutoRouter, error, type IRequest } from 'itty-router'
import { readPartial, type ReportPartial } from '../src/core/reports/report-partial.ts'
import type { AddedReport } from '../src/core/reports/report-store.ts'
import type { RollupGroup } from '../src/core/reports/rollups.ts'
import type { RequestReport } from '../src/core/reports/ttft-state.ts'

interface ReportSource {
  report(partials: readonly ReportPartial[], limits: null): Promise<AddedReport[]>
  find(id: string): Promise<RequestReport | null>
  rollups(): Promise<RollupGroup[]>
  held(): { readonly requests: number; readonly bytes: number }
}

/** HTTP of the object by `stub.fetch`; no entry routes clients here. */
export function reportRouter(object: ReportSource) {
  const post = async (request: IRequest) => {
    const partial = readPartial(await request.json())
    if ('detail' in partial) return error(400, partial)
    const [added] = await object.report([partial], null)
    return { request_id: added!.id, combined: added!.combined }
  }
  const get = async ({ params }: IRequest) => {
    const found = await object.find(decodeURIComponent(params['id'] ?? ''))
    return found === null
      ? error(404, { detail: 'not found' })
      : { request_id: found.id, by_role: found.byRole, combined: found.combined }
  }
  return AutoRouter({ missing: () => error(404, 'POST /ttft_report, GET /ttft_report/:id, GET /rollups or GET /held') })
    .post('/ttft_report', (request: IRequest) => post(request))
    .get('/ttft_report/:id', (request: IRequest) => get(request))
    .get('/rollups', () => object.rollups())
    .get('/held', () => object.held())
}
