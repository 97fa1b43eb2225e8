/**
 * Runs the shell commands of the README and of the guides as typed, beside a gateway and simulated engines. Blocks that
 * cannot run here have a reason in `NOT_RUN`. The tutorials have tests of their own.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { main } from '../../bin/commands.ts'
import { ownPorts } from '../own-ports.ts'
import { bash, root } from '../tutorials/run-page.ts'

const PAGES = ['README.md', 'CONTRIBUTING.md', ...pagesOf('docs'), 'packages/bench/README.md'] as const

function pagesOf(folder: string): string[] {
  return readdirSync(join(root, folder)).flatMap((name) => (name.endsWith('.md') ? [`${folder}/${name}`] : []))
}

/** Reasons by the beginning of the block. */
const NOT_RUN: readonly (readonly [page: string, begin: string, reason: string])[] = [
  ['README.md', 'npx firstlight replay --trace conversation.jsonl', 'the trace is not part of the project'],
  ['README.md', 'npm ci && npm start', 'CI runs both: it begins with them'],
  ['CONTRIBUTING.md', 'npm ci', 'CI runs it'],
  ['docs/api.md', 'curl http://127.0.0.1:8080/v1/audio', 'needs a sound file: test/contracts/audio.ts'],
  ['docs/calibrate.md', 'firstlight calibrate', 'needs a measured run: test/replay'],
  ['docs/cli.md', 'source <(firstlight completion', 'for two different shells: test/cli/commands'],
  ['docs/clients.md', 'export ANTHROPIC_BASE_URL', 'needs the client: conformance row agent-claude-code'],
  ['docs/clients.md', 'export OPENAI_API_BASE_URL', 'needs the client'],
  ['docs/coming-from.md', 'firstlight convert', 'files of other routers: test/convert'],
  ['docs/coming-from.md', 'vllm-router', 'input of convert: test/convert'],
  ['docs/coming-from.md', 'python -m dynamo', 'input of convert: test/convert'],
  ['docs/conformance.md', 'npm run conformance', 'needs real engines'],
  ['docs/cost.md', 'jq -rs', 'needs jq'],
  ['docs/dashboard.md', 'npm start', 'CI runs it'],
  ['docs/dashboard.md', 'curl -N', 'does not end'],
  ['docs/deploy-node.md', 'git clone', 'test/tutorials/contribute.test.ts clones; the rest is in getting-started.md'],
  ['docs/deploy-node.md', 'docker build', 'needs Docker: scripts/image-check.mjs'],
  ['docs/deploy-node.md', 'firstlight check NEW', 'test/tutorials/operate.test.ts'],
  ['docs/deploy-workers.md', '', 'needs an account: test/tutorials/workers.test.ts runs the same commands'],
  ['docs/disaggregation.md', 'VLLM_NIXL', 'needs vLLM and NIXL'],
  ['docs/getting-started.md', 'git clone', 'test/tutorials/contribute.test.ts clones'],
  ['docs/kubernetes.md', 'docker build', 'needs a cluster: test/tutorials/kubernetes.test.ts'],
  ['docs/kv-events.md', 'vllm serve', 'needs vLLM'],
  ['docs/kv-events.md', 'firstlight bridge', 'does not end: test/cli/bridge.test.ts'],
  ['docs/lmcache.md', 'lmcache server', 'needs LMCache'],
  ['docs/recovery.md', 'npm run bench', 'takes 20 minutes'],
  ['docs/regions.md', 'npx firstlight check', 'needs regions: test/tutorials/workers.test.ts'],
  ['docs/regions.md', 'curl -H', 'needs regions: test/contracts/region-engines.ts'],
  ['docs/tokens.md', 'firstlight vocab', 'needs a model folder: test/cli/vocab.test.ts'],
]

/** Lines that start what the test has already started, and a view for a terminal. */
const STARTED = /^(npm start|(npx )?firstlight (serve|fleet|top|init)(?! --once)\b.*|npx firstlight top --url .*)$/

interface Block {
  readonly page: string
  readonly text: string
  readonly first: string
}

const blocks = PAGES.flatMap((page) =>
  [...readFileSync(join(root, page), 'utf8').matchAll(/^ *```(?:sh|bash)\n([\s\S]*?)^ *```$/gm)].map(
    ([, text]): Block => ({ page, text: text!, first: text!.trim().split('\n')[0]! }),
  ),
)
const reasonOf = ({ page, first }: Block) =>
  NOT_RUN.find(([at, begin]) => at === page && first.startsWith(begin))?.[2] ?? null

it('every reason belongs to a block', () => {
  const unused = NOT_RUN.filter(
    ([page, begin]) => !blocks.some((one) => one.page === page && one.first.startsWith(begin)),
  )
  expect(unused).toEqual([])
})

const folder = mkdtempSync(join(tmpdir(), 'pages-'))
const over = new AbortController()
const ended: Promise<number>[] = []
const ports = { withKeys: ownPorts(1), open: ownPorts(1), engines: ownPorts(3) }
/** Ids of a decision by port of the gateway. */
const decisions = new Map<number, string>()

/** A gateway like that of `npm start`: without keys. */
const openGateway = {
  version: 1,
  listen: `127.0.0.1:${ports.open}`,
  log: { level: 'silent' },
  ttft: { enabled: true },
  clusters: [
    {
      id: 'local',
      pools: [
        {
          model: 'sim',
          aliases: ['qwen'],
          engines: [0, 1].map((at) => ({ id: `engine-${at}`, url: `http://127.0.0.1:${ports.engines + at}` })),
        },
      ],
    },
  ],
}

const gatewayWithKeys = {
  ...openGateway,
  listen: `127.0.0.1:${ports.withKeys}`,
  keys: [{ name: 'team-a', secret: { env: 'KEY' } }],
  admin: { secret: { env: 'FIRSTLIGHT_ADMIN_KEY' } },
  issued_keys: { file: join(folder, 'keys.json') },
}

const env = {
  KEY: 'key-of-the-client',
  FIRSTLIGHT_KEY: 'key-of-the-client',
  ADMIN_KEY: 'key-of-the-admin',
  FIRSTLIGHT_ADMIN_KEY: 'key-of-the-admin',
}

const errors: string[] = []
const io = {
  out: () => undefined,
  err: (line: string) => void errors.push(line),
  env,
  stop: over.signal,
  stopNow: over.signal,
}

/** Runs a command that does not end, until it answers at this URL. */
async function start(url: string, ...command: readonly string[]): Promise<void> {
  ended.push(main(command, io))
  const answers = () =>
    fetch(url).then(
      ({ ok }) => ok,
      () => false,
    )
  await vi
    .waitUntil(answers, { timeout: 60_000 })
    .catch(() => expect.fail(`${command.join(' ')}: ${errors.join('\n')}`))
}

async function serve(name: string, config: typeof openGateway): Promise<void> {
  const file = join(folder, name)
  writeFileSync(file, JSON.stringify(config))
  await start(`http://${config.listen}/ready`, 'serve', '--config', file, '--workers', '1')
}

async function chat(port: number): Promise<void> {
  const { headers } = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${env.KEY}`, 'content-type': 'application/json' },
    body: '{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"Hello"}]}',
  })
  decisions.set(port, headers.get('x-firstlight-decision')!.split(';')[0]!)
}

beforeAll(async () => {
  const trace = Array.from({ length: 40 }, (_, at) => ({
    timestamp: at * 100,
    input_length: 1000,
    output_length: 20,
    hash_ids: [at % 5, 100 + at],
  }))
  writeFileSync(join(folder, 'traffic.jsonl'), trace.map((line) => JSON.stringify(line)).join('\n'))
  const fleet = ['fleet', '--engines', '2', '--port', String(ports.engines), '--profile', 'test']
  await start(`http://127.0.0.1:${ports.engines + 2}/_sim/engines`, ...fleet)
  await serve('firstlight.yaml', gatewayWithKeys)
  await serve('open.yaml', openGateway)
  await chat(ports.withKeys)
  await chat(ports.open)
}, 150_000)

afterAll(async () => {
  over.abort()
  await Promise.all(ended)
  rmSync(folder, { recursive: true, force: true })
})

const commandsOf = ({ text }: Block): string =>
  text
    .split('\n')
    .filter((line) => !STARTED.test(line.replace(/\s*#.*$/, '').trim()))
    .join('\n')
    .trim()

/** The block with the addresses and names of this run. */
function typed(block: Block): string {
  const set = Object.entries(env).map(([name, value]) => `export ${name}=${value}`)
  const commands = commandsOf(block)
  const gateway = /KEY/.test(commands) ? ports.withKeys : ports.open
  const local = (port: number): string => `127.0.0.1:${port}`
  return [
    ...set,
    commands
      .replaceAll(/127\.0\.0\.1:8080|gateway:8080/g, local(gateway))
      .replaceAll(/127\.0\.0\.1:8001|10\.0\.0\.1:8000/g, local(ports.engines))
      .replaceAll('10.0.0.2:8000', local(ports.engines + 1))
      .replaceAll('127.0.0.1:8003', local(ports.engines + 2))
      .replaceAll('pools/my-model', 'pools/sim')
      .replaceAll('top --once', `top --url http://${local(gateway)} --once`)
      .replaceAll('decisions/ID', `decisions/${decisions.get(gateway)}`)
      .replaceAll(/^export (\w+)=….*$/gm, (line, name: string) => (name in env ? '' : line))
      .replaceAll(/(?:npx )?\bfirstlight (?=[a-z])/g, `node ${JSON.stringify(join(root, 'bin/firstlight.mjs'))} `)
      .replaceAll('curl ', 'curl -sS --fail-with-body '),
  ].join('\n')
}

it.each(blocks.filter((block) => reasonOf(block) === null && commandsOf(block) !== ''))(
  '$page works as typed: $first',
  async (block) => {
    const { code, output } = await bash(
      typed(block),
      folder,
      `${join(root, 'node_modules/.bin')}:${process.env['PATH']}`,
    )
    expect(code, output).toBe(0)
  },
  120_000,
)
