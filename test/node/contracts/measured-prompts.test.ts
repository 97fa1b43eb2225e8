import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { startWorkers } from '../../../scripts/edge-workers.ts'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { readTokenizerConfig } from '../../../src/core/tokens/tokenizer-config.ts'
import { MEASURED_PROMPT_HEADER } from '../../../src/api/prompt/measured-prompt.ts'
import { measuredPromptContract, type MeasuredPromptWay } from '../../contracts/measured-prompts.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'
import { openReverseProxy } from '../../kit/reverse-proxy.ts'

const modelFile = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(`../../vectors/model/${name}`, import.meta.url), 'utf8')) as Record<string, unknown>
const vocabulary = compileVocabulary({
  tokenizer: modelFile('tokenizer.json'),
  ...readTokenizerConfig(modelFile('tokenizer_config.json')),
})

/** Proxy before a gateway that keeps the measured prompt of the last inference request, not of a probe between them. */
async function startProxy(url: string) {
  let last: string | null = null
  const proxy = await openReverseProxy(({ method, headers }) => {
    if (method === 'POST') last = (headers[MEASURED_PROMPT_HEADER] as string | undefined) ?? null
    return { to: url }
  })
  return { url: proxy.url, sent: async () => last, close: () => proxy.close() }
}

const onNode: MeasuredPromptWay['start'] = async ({ edge, region }) => {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-measured-'))
  const file = join(folder, 'sim.vocab')
  writeFileSync(file, vocabulary)
  const regional = await startNodeGateway(region(file))
  const proxy = await startProxy(regional.url)
  const front = await startNodeGateway(edge(file, { url: proxy.url }))
  return {
    edge: front.url,
    region: regional.url,
    sent: proxy.sent,
    async close() {
      await front.close()
      await proxy.close()
      await regional.close()
      rmSync(folder, { recursive: true })
    },
  }
}

/** The same proxy as a Worker between two service bindings. */
const PROXY = `let last = null
export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === '/sent') return Response.json(last)
    if (request.method === 'POST') last = request.headers.get('${MEASURED_PROMPT_HEADER}')
    return env.TO.fetch(request)
  },
}`

const onWorkers: MeasuredPromptWay['start'] = async ({ edge, region }) => {
  const vocabularies = { sim: new Uint8Array(gzipSync(vocabulary)) }
  const variables = (document: object) => ({ FIRSTLIGHT_CONFIG: JSON.stringify(document) })
  const gateway = { url: 'http://paris.invalid', binding: 'PARIS' }
  const running = await startWorkers(
    [
      { name: 'front', bindings: variables(edge('sim', gateway)), services: { PARIS: 'proxy' }, vocabularies, port: 0 },
      { name: 'proxy', script: PROXY, objects: false, bindings: {}, services: { TO: 'region' }, port: 0 },
      { name: 'region', bindings: variables(region('sim')), vocabularies, port: 0 },
    ],
    { quiet: true },
  )
  const { front, proxy, region: regional } = running.urls as Record<'front' | 'proxy' | 'region', string>
  const sent = async () => (await (await fetch(`${proxy}/sent`)).json()) as string | null
  return { edge: front, region: regional, sent, close: () => running.stop() }
}

measuredPromptContract('Node', { start: onNode, maxBytes: 8 * 1024 })
measuredPromptContract('Workers, by a service binding', { start: onWorkers, maxBytes: 48 * 1024 })
