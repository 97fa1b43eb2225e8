import { describe, expect, it } from 'vitest'
import { FakeEngine } from './fake-engine.ts'
import { openGateway, runtimes } from './gateway.ts'
import { completion } from './sse.ts'

describe.each(runtimes)('a gateway of the test kit on %s', (_, runtime) => {
  it('serves a chat from its engines and holds no booking afterwards', async () => {
    await using engine = await FakeEngine.open({ 'POST *': { body: completion('hello') } })
    await using gateway = await openGateway({ runtime, engines: [engine] })
    const response = await gateway.chat()
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'hello' } }] })
    expect(response.headers.get('x-firstlight-engine')).toBe('e0')
    expect(engine.asked.map(({ path }) => path)).toEqual(['/v1/chat/completions'])
    await gateway.idle()
  })
})
