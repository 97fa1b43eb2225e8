import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ClientFaultEngine } from '../../../packages/bench/client-faults/client-fault-engine.ts'
import { ANSWER, promptOf, type ClientFault } from '../../../packages/bench/client-faults/faults.ts'
import { readerOf, stateOf } from '../../protocols/read-stream.ts'

let engine: ClientFaultEngine
beforeAll(async () => void (engine = await ClientFaultEngine.open()))
afterAll(() => engine.close())

const ask = (path: string, fault: ClientFault | 'none', stream: boolean) =>
  fetch(engine.url + path, { method: 'POST', body: JSON.stringify({ model: 'm', input: promptOf(fault), stream }) })

describe.each(['/v1/chat/completions', '/v1/messages', '/v1/responses'])('an engine with faults at %s', (path) => {
  const outcomeOf = async (fault: ClientFault | 'none') =>
    stateOf(readerOf(path, await (await ask(path, fault, true)).text()))

  it('an engine answers completely without a fault', async () => {
    expect(await outcomeOf('none')).toMatchObject({ outcome: 'complete', hasBegun: true, error: null })
    expect(await (await ask(path, 'none', false)).text()).toContain(ANSWER)
  })

  it('an engine with faults fails before or within the output, as asked', async () => {
    expect(await outcomeOf('error_first')).toMatchObject({ outcome: 'error', outputs: 0 })
    const [mid, unended] = [await outcomeOf('error_mid'), await outcomeOf('no_end')]
    expect([mid.outcome, unended.outcome]).toEqual(['error', 'truncated'])
    expect(Math.min(mid.outputs, unended.outputs)).toBeGreaterThan(2)
    await expect(ask(path, 'cut', true).then((response) => response.text())).rejects.toThrow('terminated')
    await expect(ask(path, 'whole_cut', false).then((response) => response.text())).rejects.toThrow('terminated')
  })
})
