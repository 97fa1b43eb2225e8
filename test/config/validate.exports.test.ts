import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'

const parsed = (sections: object, listens = true) =>
  parseConfig(
    {
      ...sections,
      clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'a', url: 'http://10.0.0.1:8000' }] }] }],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens },
  )

const otlp = { endpoint: 'http://10.0.0.2:4318' }

it('metrics and log lines are exported only if a collector is configured', () => {
  expect([parsed({}).metrics.otlp, parsed({}).log.otlp]).toEqual([null, null])
  expect(parsed({ metrics: { otlp } }).metrics.otlp).toMatchObject({ ...otlp, intervalS: 60 })
})

it.each([['metrics'], ['log']])('%s of a Worker are not exported, and the error says what to do', (section) => {
  expect(() => parsed({ [section]: { otlp } }, false)).toThrow(
    new RegExp(`${section}\\.otlp.*needs \`firstlight serve\` on Node: leave it out`),
  )
})

it.each([['metrics'], ['log']])('a collector of %s has a URL and headers that HTTP allows', (section) => {
  expect(() => parsed({ [section]: { otlp: { endpoint: 'collector:4318' } } })).toThrow(`${section}.otlp.endpoint`)
  expect(() => parsed({ [section]: { otlp: { ...otlp, headers: { 'x-a': 'a\nb' } } } })).toThrow(
    `${section}.otlp.headers`,
  )
})
