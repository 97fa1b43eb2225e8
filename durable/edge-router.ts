import { AutoRouter, error as errorResponse, type IRequest } from 'itty-router'
import type { Decision } from '../src/core/contract/decision.ts'
import { readBatch } from '../src/core/edge/read-batch.ts'
import type { RequestRow, SyncAnswer, SyncBatch } from '../src/core/edge/sync.ts'
import { type LiveFrames, VIEWERS } from './live-frames.ts'

const RETRY_S = 10

interface EdgeQueries {
  sync(batch: SyncBatch): Promise<SyncAnswer>
  decision(id: string): Promise<Decision | null>
  request(id: string): Promise<RequestRow | null>
}

/** HTTP of the object by `stub.fetch`; no entry routes clients here. */
export function edgeRouter(object: EdgeQueries, frames: LiveFrames) {
  const sync = async (request: IRequest) => {
    try {
      return await object.sync(readBatch(await request.json()))
    } catch (problem) {
      return errorResponse(400, { detail: String(problem) })
    }
  }
  const live = (request: IRequest) => {
    if (frames.isFull)
      return errorResponse(429, { detail: `${VIEWERS} viewers are the maximum`, retry_after_s: RETRY_S })
    return new Response(frames.open(request.headers.get('last-event-id')), {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform' },
    })
  }
  return AutoRouter({
    missing: () => errorResponse(404, 'POST /sync, GET /live, GET /decisions/:id or GET /requests/:id'),
  })
    .post('/sync', (request: IRequest) => sync(request))
    .get('/live', live)
    .get('/decisions/:id', (request: IRequest) => rowOrNotFound(object.decision(idOf(request))))
    .get('/requests/:id', (request: IRequest) => rowOrNotFound(object.request(idOf(request))))
}

const idOf = ({ params }: IRequest): string => decodeURIComponent(params['id'] ?? '')

async function rowOrNotFound(row: Promise<unknown>): Promise<unknown> {
  return (await row) ?? errorResponse(404, { detail: 'not found' })
}
