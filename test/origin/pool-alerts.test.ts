import { expect, it } from 'vitest'
import type { PoolEvent } from '../../src/core/pool/pool-events.ts'
import { reportPoolEvents } from '../../src/origin/pool-alerts.ts'
import type { Alert } from '../../src/ports/alerts.ts'
import type { Log } from '../../src/ports/log.ts'

function reported(event: PoolEvent) {
  const alerts: Alert[] = []
  const lines: object[] = []
  reportPoolEvents(
    {
      log: { warn: (name: string, fields: object) => void lines.push({ name, ...fields }) } as unknown as Log,
      alerts: { raise: (alert) => void alerts.push(alert) },
      now: () => 5_000,
    },
    { cluster: 'paris', pool: 'qwen' },
    [event],
  )
  return { alert: alerts[0], line: lines[0] }
}

const fieldsOfDown = { engine: 'a', condition: 'wedged', since: 1_000, taken_out: true } as const

it('an event of an engine names the keys and models that it hurts in the log and in the alert', () => {
  const one = { requests: 1, keys: 1, models: 1, key_names: ['cy'], model_names: ['qwen'] }
  const hurt = { requests: 7, keys: 6, models: 1, key_names: ['ada', 'bob'], model_names: ['qwen'], gave_up: one }
  const { alert, line } = reported({ event: 'engine_down', ...fieldsOfDown, hurt })
  expect(alert!.hurt).toEqual(hurt)
  expect(line).toEqual({ name: 'engine_down', cluster: 'paris', model: 'qwen', ...fieldsOfDown, ...hurt })
})

it('an event without waiting requests has no hurt in its alert', () => {
  const { alert, line } = reported({ event: 'engine_up', engine: 'a', condition: 'wedged', since: 1_000 })
  expect(alert).toMatchObject({ event: 'engine_up', state: 'well', hurt: null })
  expect(line).not.toHaveProperty('requests')
})
