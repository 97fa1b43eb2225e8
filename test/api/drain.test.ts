import { expect, it } from 'vitest'
import { supersede } from '../../src/api/drain.ts'
import type { GatewayStatus } from '../../src/api/gateway-status.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { WaitingRequests } from '../../src/origin/placement/waiting-requests.ts'

const configOf = (keys: readonly object[]) =>
  parseConfig(
    { keys, clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'e', url: 'http://e.test' }] }] }] },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: false },
  )
const keyOf = (name: string, ...secrets: readonly string[]) => ({
  name,
  secrets: secrets.map((secret) => ({ secret })),
})

it('a waiting request goes on while the next configuration has one of the secrets of its key', () => {
  const waitingRequests = new WaitingRequests()
  const refused: string[] = []
  const names = ['rotated', 'replaced', 'renamed', 'removed']
  for (const name of names) waitingRequests.watch(name, ({ reason }) => refused.push(`${name}: ${reason}`))
  const status: GatewayStatus = { configRefusedAt: null, draining: false, retired: false }
  const config = configOf([
    keyOf('rotated', 'first', 'second'),
    keyOf('replaced', 'third'),
    keyOf('renamed', 'fourth'),
    keyOf('removed', 'fifth'),
  ])
  const next = configOf([keyOf('rotated', 'second', 'sixth'), keyOf('replaced', 'seventh'), keyOf('other', 'fourth')])
  supersede({ mirrors: null, status, config, waitingRequests, ports: { random: () => 0 } }, next, true)
  expect(refused).toEqual(['replaced: key_wrong', 'renamed: key_wrong', 'removed: key_wrong'])
  expect(status.retired).toBe(true)
})
