import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { summarise } from '../../src/config/summary.ts'

const keys = [{ name: 'a', secret: 'client-secret' }]
const notes = (ttft: object, more: object = { keys }): string =>
  summarise(
    parseConfig(
      {
        clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'e', url: 'http://127.0.0.1:9' }] }] }],
        ttft: { enabled: true, ...ttft },
        ...more,
      },
      {},
      { defaultVersion: 1, defaultObserveShare: 1, listens: true },
    ),
  ).notes.join('\n')

it('a note reports a missing ttft.token and the clients that can report without one', () => {
  expect(notes({})).toMatch(/\/ttft_report requires the admin key/)
  expect(notes({ listen: '0.0.0.0:28886' })).toMatch(/anyone who can connect to `ttft.listen`/)
  expect(notes({}, { open: true })).toMatch(/anyone who can connect may write/)
  for (const text of [
    notes({ token: 'report-token' }),
    notes({ listen: '127.0.0.1:28886' }),
    notes({}, {}),
    notes({ enabled: false }),
  ])
    expect(text).not.toContain('ttft.token')
})
