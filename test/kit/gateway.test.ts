import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { FakeEngine } from './fake-engine.ts'
import { openGateway, runtimes } from './gateway.ts'
import { completion } from './sse.ts'

it.each(runtimes)(
  'a gateway on %s serves a chat from its engine and holds no booking afterwards',
  async (_, runtime) => {
    await using engine = await FakeEngine.open({ 'POST *': { body: completion('hello') } })
    await using gateway = await openGateway({ runtime, engines: [engine] })
    const response = await gateway.chat()
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'hello' } }] })
    expect(response.headers.get('x-firstlight-engine')).toBe('e0')
    expect(engine.posts.map(({ path }) => path)).toEqual(['/v1/chat/completions'])
    await gateway.idle()
  },
)

it('the README of the kit shows gateway.example.test.ts as it is', () => {
  const text = (name: string): string => readFileSync(new URL(name, import.meta.url), 'utf8')
  expect(text('README.md')).toContain(`\`\`\`ts\n${text('gateway.example.test.ts')}\`\`\``)
})
