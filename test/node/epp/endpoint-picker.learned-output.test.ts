/** Output of responses that do not pass through the picker. */
import { expect, it } from 'vitest'
import { HEADS, ProxyCall } from '../../kit/ext-proc-client.ts'
import { openPicker } from '../../kit/open-picker.ts'
import { until } from '../../wait.ts'

const SSE = { 'content-type': 'text/event-stream', server: 'uvicorn', date: 'now' }
const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] })

interface DecisionView {
  readonly candidates: readonly { readonly engine: string; readonly terms: Readonly<Record<string, number>> }[]
}

it('output of a response that the picker does not see is estimated from time until the request ends', async () => {
  await using picker = await openPicker({ pool: { block_tokens: 16, policy: 'active_blocks' } })
  const { client, gateway, a } = picker
  /** Blocks that the next decision counts at an engine, with those of its own request. */
  const blocksAt = async (engine: string): Promise<number> => {
    const response = await gateway.chat()
    await response.text()
    const id = response.headers.get('x-firstlight-decision')!.split(';')[0]!
    const { candidates } = (await (await gateway.get(`/v1/firstlight/decisions/${id}`)).json()) as DecisionView
    return candidates.find((candidate) => candidate.engine === engine)!.terms['potential_blocks']!
  }
  const unparsed = new ProxyCall(client, HEADS)
  const engine = (await unparsed.request({ body })).metadata === a ? 'a' : 'b'
  const placed = await blocksAt(engine)
  expect(await blocksAt(engine === 'a' ? 'b' : 'a')).toBeLessThan(placed)
  unparsed.responseHead(200, SSE)
  await unparsed.next(({ kind }) => kind === 'response_headers')
  await until(async () => (await blocksAt(engine)) > placed + 1)
  // A prefill that seems to go on would make the engine look slow, and then sick.
  expect((await gateway.engines())[engine]).toMatchObject({ queued_prefill_s: 0, condition: 'well' })
  unparsed.send([[7, [[1, []]]]])
  unparsed.call.halfClose()
  await unparsed.ended
  await until(async () => (await blocksAt(engine)) < placed)
  await gateway.idle()
})
