import { afterEach, beforeEach, expect, it } from 'vitest'
import { openLog } from '../../../src/platform/node/log.ts'
import { LogExport } from '../../../src/platform/node/otlp/log-export.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { nodeConfig } from '../../kit/node-gateway.ts'

interface Exported {
  readonly resourceLogs: readonly {
    readonly scopeLogs: readonly { readonly logRecords: readonly { readonly eventName: string }[] }[]
  }[]
}

let collector: FakeEngine
let written: string[]

beforeEach(async () => {
  written = []
  collector = await FakeEngine.open({ 'POST *': { body: {} } })
})

afterEach(() => collector.close())

const configWith = (otlp: object | null) =>
  nodeConfig({
    ...(otlp !== null && { log: { otlp } }),
    clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'a', url: 'http://127.0.0.1:9' }] }] }],
  })

const exporting = () => {
  const log = openLog('info', { write: (line) => void written.push(line) })
  const config = configWith({ endpoint: collector.url, headers: { 'x-key': 'k' } })
  return { log, logExport: new LogExport(log, config) }
}

const received = () =>
  collector.posts.flatMap(({ json }) =>
    (json as unknown as Exported).resourceLogs[0]!.scopeLogs[0]!.logRecords.map(({ eventName }) => eventName),
  )

it('the collector gets each line that the log has, at the end at the latest', async () => {
  const { log, logExport } = exporting()
  log.info('first_event')
  log.debug('below_the_level')
  log.warn('second_event', { engine: 'a' })
  await logExport.end()
  expect(received()).toEqual(['first_event', 'second_event'])
  expect(collector.posts[0]).toMatchObject({ path: '/v1/logs', headers: { 'x-key': 'k' } })
  expect(written).toHaveLength(2)
})

it('a failure is logged once, and its line is not exported', async () => {
  const { log, logExport } = exporting()
  collector.routes = { 'POST *': { status: 400, body: {} } }
  log.info('first_event')
  await logExport.end()
  collector.routes = { 'POST *': { body: {} } }
  log.info('second_event')
  await logExport.end()
  expect(written.filter((line) => line.includes('batch_export_failed'))).toHaveLength(1)
  expect(received()).toEqual(['first_event', 'second_event'])
})

it('a reload switches the export off and on', async () => {
  const { log, logExport } = exporting()
  logExport.adopt(configWith(null))
  log.info('first_event')
  await logExport.end()
  logExport.adopt(configWith({ endpoint: collector.url }))
  log.info('second_event')
  await logExport.end()
  expect(received()).toEqual(['second_event'])
})
