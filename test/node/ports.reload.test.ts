import { expect, it } from 'vitest'
import { withIssuedKeys } from '../../src/platform/node/issued-key-file.ts'
import { nodePorts } from '../../src/platform/node/ports.ts'
import type { Alert } from '../../src/ports/alerts.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { configOf } from '../kit/recording-ports.ts'
import { until } from '../wait.ts'

const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const alert: Alert = {
  event: 'budget_spent',
  account: 'ada',
  cluster: null,
  pool: null,
  engine: null,
  state: '100 % of 100 tokens per day',
  since: new Date(0).toISOString(),
  hurt: null,
  did: 'Requests are refused.',
  next: null,
}

it('budgets of a gateway with a file of issued keys alert the webhook of a later configuration', async () => {
  await using before = await FakeEngine.open({ 'POST *': { status: 204 } })
  await using after = await FakeEngine.open({ 'POST *': { status: 204 } })
  const configWith = ({ url }: FakeEngine) => ({ ...configOf(), alerts: { webhook: { url, secret: null } } })
  const ports = nodePorts(configWith(before), log)
  // Budgets outlive a configuration with the ports of their first gateway.
  const { alerts } = withIssuedKeys(ports, { issuedKeys: { file: 'keys.json', refreshMs: 1_000 } }, '/tmp')
  ports.adopt(configWith(after))
  alerts.raise(alert)
  await until(() => after.posts.length + before.posts.length > 0)
  expect(after.posts.length).toBe(1)
  await ports.close()
})
