import { expect, it } from 'vitest'
import { EdgeReader } from '../../src/platform/workers/edge-reader.ts'
import type { Log } from '../../src/ports/log.ts'

it('a view is shared again after a read that failed', async () => {
  let isAway = false
  const object = {
    status: () => Promise.resolve({ startedAt: 0, isolates: 3 }),
    decision: () => (isAway ? Promise.reject(new Error('the object is away')) : Promise.resolve(null)),
  }
  let warnings = 0
  const log: Log = { writes: () => true, debug() {}, info() {}, warn: () => void (warnings += 1), error() {} }
  const reader = new EdgeReader({
    open: () => object as unknown as ReturnType<ConstructorParameters<typeof EdgeReader>[0]['open']>,
    log,
  })
  await reader.readStatus()
  expect(reader.view).toEqual({ shared: true, isolates: 3 })

  isAway = true
  await reader.decision('a')
  await reader.decision('a')
  expect(reader.view).toEqual({ shared: false, isolates: 3 })
  expect(warnings).toBe(1)

  isAway = false
  await reader.readStatus()
  await reader.decision('a')
  expect(reader.view).toEqual({ shared: true, isolates: 3 })
})
