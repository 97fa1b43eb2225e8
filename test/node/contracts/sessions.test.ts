import { expect, it } from 'vitest'
import { sessionsContract } from '../../contracts/sessions.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { openGateway } from '../../kit/gateway.ts'
import { until } from '../../wait.ts'

sessionsContract('node')

it('a session is in the log line and in the spans of its request', async () => {
  const engine = await FakeEngine.open({ 'POST *': { body: { choices: [] } } })
  const collector = await FakeEngine.open({ 'POST *': { body: {} } })
  await using gateway = await openGateway({
    engines: [engine],
    config: { traces: { endpoint: collector.url, sample: 1 } },
  })
  const headers = { 'x-claude-code-session-id': 's1', 'x-claude-code-agent-id': 'a1' }
  await (await gateway.chat({}, { headers })).text()
  await until(() => collector.posts.length > 0)
  expect(gateway.logged('request')).toContainEqual(
    expect.objectContaining({ session: 's1', session_source: 'header x-claude-code-session-id', agent: 'a1' }),
  )
  const spans = collector.posts.map(({ text }) => text).join('')
  expect(spans).toContain('{"key":"gen_ai.conversation.id","value":{"stringValue":"s1"}}')
  expect(spans).toContain('{"key":"gen_ai.agent.id","value":{"stringValue":"a1"}}')
  await collector.close()
  await engine.close()
})
