import { afterEach, describe, expect, it } from 'vitest'
import { openFleet, type Fleet } from '../../../packages/bench/field-agents/fleet.ts'
import { BEFORE, taskPrompt } from '../../../packages/bench/field-agents/task.ts'
import { readerOf, stateOf } from '../../protocols/read-stream.ts'

let fleet: Fleet
afterEach(() => fleet.close())

const prompt = taskPrompt('/tmp/x/settings.txt')
const tools = ['Read', 'Edit', 'Bash'].map((name) => ({ name, input_schema: { type: 'object' } }))
const requests: Readonly<Record<string, object>> = {
  '/v1/chat/completions': {
    messages: [{ role: 'user', content: prompt }],
    tools: tools.map(({ name }) => ({ type: 'function', function: { name } })),
    stream_options: { include_usage: true },
  },
  '/v1/messages': { messages: [{ role: 'user', content: prompt }], tools },
  '/v1/responses': { input: [{ role: 'user', content: prompt }], tools },
}

const ask = (path: string, more: object = {}) =>
  fetch(fleet.engines[0]!.url + path, {
    method: 'POST',
    body: JSON.stringify({ model: 'coder', stream: true, ...requests[path], ...more }),
  })

describe.each(Object.keys(requests))('a scripted engine at %s', (path) => {
  it('a scripted engine calls the first tool of the task in a stream that the gateway reads as complete', async () => {
    fleet = await openFleet(['a'])
    const stream = await (await ask(path)).text()
    expect(stream).toContain('Read')
    const promptTokens = fleet.served[0]?.prompt.tokens
    expect(stateOf(readerOf(path, stream))).toMatchObject({
      outcome: 'complete',
      hasBegun: true,
      error: null,
      usage: { promptTokens, cachedTokens: 0 },
    })
  })

  it('a scripted engine reports its true cached tokens when the prompt comes again', async () => {
    fleet = await openFleet(['a'])
    await (await ask(path)).text()
    const { usage } = readerOf(path, await (await ask(path)).text())
    const { prompt: counted } = fleet.served[0]!
    expect(usage?.promptTokens).toBe(counted.tokens)
    expect(usage?.cachedTokens).toBeGreaterThan(counted.tokens - 17)
    expect(fleet.served[1]?.cachedAt).toEqual({ a: usage?.cachedTokens })
  })

  it('a scripted engine fails once for each planned fault', async () => {
    fleet = await openFleet(['a'])
    fleet.fail('/tmp/x/settings.txt', { 0: ['busy', 'error_event', 'broken_stream'] })
    const busy = await ask(path)
    expect([busy.status, busy.headers.get('retry-after')]).toEqual([429, null])
    expect(readerOf(path, await (await ask(path)).text()).earlyError).toMatchObject({ status: 500 })
    await expect(ask(path).then((response) => response.text())).rejects.toThrow('terminated')
    expect((await ask(path)).status).toBe(200)
    expect(fleet.served.map(({ fault }) => fault)).toEqual(['busy', 'error_event', 'broken_stream', null])
  })
})

describe('a task', () => {
  it('a task takes one tool after the other and ends in words', async () => {
    fleet = await openFleet(['a'])
    const messages: object[] = [{ role: 'user', content: prompt }]
    const called: string[] = []
    for (let turn = 0; turn < 4; turn++) {
      const { content } = (await (await ask('/v1/messages', { messages, stream: false })).json()) as {
        content: { type: string; id?: string; name?: string; input?: { old_string?: string } }[]
      }
      const call = content.find(({ type }) => type === 'tool_use')
      called.push(call?.name ?? 'words')
      if (call?.name === 'Edit') expect(call.input?.old_string).toBe(BEFORE)
      messages.push({ role: 'assistant', content })
      messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: call?.id, content: 'ok' }] })
    }
    expect(called).toEqual(['Read', 'Edit', 'Bash', 'words'])
  })
})
