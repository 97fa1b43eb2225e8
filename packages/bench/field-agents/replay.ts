/**
 * Sends recorded conversations of Claude Code again, with a first system block that changes with each request, as some
 * of its versions send it (`cch=`).
 */
import { send } from '../conformance/http.ts'
import type { Processes } from '../conformance/processes.ts'
import { openFleet } from './fleet.ts'
import { CLIENT_KEY, openAgentGateway } from './gateway.ts'
import type { Body, ServedRequest } from './served-request.ts'
import { fileOf } from './task.ts'
import { turnsOf, type Turn } from './turns.ts'

const HEADER = 'x-anthropic-billing-header'

/**
 * First, each engine gets the first conversation, so that both caches have what all share. The requests of the others
 * follow in turn, without pause: only the prefix may decide where they go.
 */
export async function replayWithChangingHeader(
  processes: Processes,
  served: readonly ServedRequest[],
  engines: readonly string[],
): Promise<Turn[]> {
  const answered = served.filter(({ body, fault }) => fault === null && hasHeader(body) && fileOf(body) !== null)
  const byFile = Object.values(Object.groupBy(answered, ({ body }) => fileOf(body)!)) as ServedRequest[][]
  const [shared, ...conversations] = byFile
  if (shared === undefined) return []
  const fleet = await openFleet(engines)
  const gateway = await openAgentGateway(processes, 'agents-replay', fleet)
  let number = 0
  const resend = async ({ path, body: recorded }: ServedRequest): Promise<void> => {
    const headers = { 'x-api-key': CLIENT_KEY, 'anthropic-version': '2023-06-01' }
    const body = withHeader(recorded, ++number)
    const { status } = await send({ url: gateway.url, method: 'POST', path, headers, body })
    if (status !== 200) throw new Error(`a repeated request of Claude Code got ${status}`)
  }
  try {
    for (const engine of engines) {
      for (const other of engines) if (other !== engine) await gateway.setDraining(other, 'drain')
      for (const request of shared) await resend(request)
      for (const other of engines) if (other !== engine) await gateway.setDraining(other, 'undrain')
    }
    const from = fleet.served.length
    const rounds = Math.max(...conversations.map(({ length }) => length))
    for (let round = 0; round < rounds; round++)
      for (const requests of conversations) if (requests[round] !== undefined) await resend(requests[round]!)
    return await turnsOf(fleet.served.slice(from), gateway)
  } finally {
    await gateway.stop()
    fleet.close()
  }
}

interface Block {
  readonly text?: string
}

const systemOf = (body: Body): readonly Block[] => (Array.isArray(body['system']) ? (body['system'] as Block[]) : [])

const hasHeader = (body: Body): boolean => systemOf(body)[0]?.text?.startsWith(HEADER) === true

function withHeader(body: Body, number: number): Body {
  const [first, ...others] = systemOf(body)
  // Random enough that no two share their first characters.
  const cch = ((number * 2_654_435_761) >>> 0).toString(16).padStart(8, '0').slice(0, 5)
  return { ...body, system: [{ ...first, text: `${first?.text ?? HEADER} cch=${cch};` }, ...others] }
}
