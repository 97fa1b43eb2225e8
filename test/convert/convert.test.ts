import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { load } from 'js-yaml'
import { commandsOf } from '../../packages/convert/src/shell.ts'
import { firstlight } from '../cli/run-cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'convert-'))
afterAll(() => rmSync(folder, { recursive: true }))

let files = 0
async function convertFile(from: string, text: string, ...flags: string[]) {
  const file = join(folder, `source-${files++}`)
  writeFileSync(file, text)
  const { code, out, err } = await firstlight('convert', '--from', from, file, ...flags)
  return { code, out, err, document: (out === '' ? {} : load(out)) as Record<string, unknown> }
}

interface Pool {
  readonly model: string
  readonly policy?: unknown
  readonly engines: readonly Record<string, unknown>[]
  readonly [key: string]: unknown
}

const poolsOf = (document: Record<string, unknown>): readonly Pool[] =>
  (document['clusters'] as { pools: Pool[] }[])[0]!.pools

describe('commands of a shell script', () => {
  it('commands of a shell script are split at separators, with variables inserted and comments removed', () => {
    const script =
      'PORT=80 # none\nexport A="b c"\nrun --port $PORT --name "${A}" \\\n  --plain \'$A\' # end\nother & --x=1'
    expect(commandsOf(script)).toEqual([
      ['run', '--port', '80', '--name', 'b c', '--plain', '$A'],
      ['other'],
      ['--x=1'],
    ])
  })

  it('commands of a shell script keep a variable that the script does not assign', () => {
    expect(commandsOf('run --port "$1" --model ${M:-tiny}')).toEqual([['run', '--port', '$1', '--model', 'tiny']])
  })
})

describe('production-stack', () => {
  it('the production-stack converter converts a script with static engines and roles by label', async () => {
    const { code, document, out } = await convertFile(
      'production-stack',
      `#!/bin/bash
python3 -m vllm_router.app --port "$1" \\
    --service-discovery static --static-backends "http://localhost:8100,http://localhost:8200" \\
    --static-models "m/M,m/M" --static-model-labels "p,d" --prefill-model-labels "p" --decode-model-labels "d" \\
    --engine-stats-interval 10 --request-stats-window 10 --routing-logic disaggregated_prefill`,
    )
    expect(code).toBe(0)
    expect(poolsOf(document)).toEqual([
      {
        model: 'm/M',
        stats_interval_ms: 10_000,
        split: { mode: 'always', connector: 'nixl' },
        engines: [
          { id: 'prefill', url: 'http://localhost:8100', role: 'prefill' },
          { id: 'decode', url: 'http://localhost:8200', role: 'decode' },
        ],
      },
    ])
    expect(out).toContain('--request-stats-window 10: not needed.')
    expect(out).toContain('"$1" is not a port')
  })

  it('the production-stack converter converts Helm values to one pool for each model, with the labels of the chart', async () => {
    const { code, document, out } = await convertFile(
      'production-stack',
      `servingEngineSpec:
  modelSpec:
    - { name: a, modelURL: m/A, replicaCount: 1 }
    - { name: b, modelURL: /data/b, vllmConfig: { extraArgs: ["--served-model-name", "m/B"] } }
routerSpec: { repository: r, routingLogic: session, sessionKey: X-User-Id, extraArgs: ["--log-level", "info"] }`,
    )
    expect(code).toBe(0)
    expect(poolsOf(document).map(({ model, policy, session }) => ({ model, policy, session }))).toEqual([
      { model: 'm/A', policy: 'session', session: { header: 'x-user-id' } },
      { model: 'm/B', policy: 'session', session: { header: 'x-user-id' } },
    ])
    expect(poolsOf(document)[1]!.engines).toEqual([
      {
        id: 'b',
        url: 'http://pods:8000',
        discover: 'kubernetes',
        kubernetes: { selector: 'environment=test,release=test,model=b' },
      },
    ])
    expect(out).toContain('routerSpec: repository: see the values')
  })

  it('the production-stack converter converts the command line of #670: TTFT routing with lookups', async () => {
    const { code, document, out } = await convertFile(
      'production-stack',
      `vllm-router --port 9091 \\
    --service-discovery static \\
    --static-backends "http://localhost:9081,http://localhost:9082" \\
    --static-models "Qwen/Qwen2-7B,Qwen/Qwen2-7B" \\
    --engine-stats-interval 10 \\
    --log-stats \\
    --routing-logic ttft \\
    --lmcache-controller-port 65432 \\
    --lmcache-instances "instance_0,instance_1" \\
    --enable-share-cache \\
    --session-key SESSION \\
    --tokenizer "Qwen/Qwen2-7B"`,
    )
    expect(code).toBe(0)
    expect(poolsOf(document)).toEqual([
      {
        model: 'Qwen/Qwen2-7B',
        session: { header: 'session' },
        stats_interval_ms: 10_000,
        policy: { name: 'ttft', shared_cache: true },
        lmcache: { controller: 'http://lmcache-controller:9000' },
        engines: [
          { id: 'engine', url: 'http://localhost:9081', lmcache_instance: 'instance_0' },
          { id: 'engine-2', url: 'http://localhost:9082', lmcache_instance: 'instance_1' },
        ],
      },
    ])
    expect(out).toContain('--tokenizer Qwen/Qwen2-7B: compile its tokenizer.json')
    expect(out).toContain('(port 65432)')
    expect(out).not.toContain('unknown to firstlight convert')
  })

  const ROLES =
    '--service-discovery static --static-backends http://p:1,http://d:2,http://d2:3/ --static-models m,m,m ' +
    '--static-model-labels p,d,d --prefill-model-labels p --decode-model-labels d'

  it('the production-stack converter answers 503 without a prefill engine, as #777 does', async () => {
    const { document } = await convertFile(
      'production-stack',
      `vllm-router --routing-logic disaggregated_prefill_orchestrated ${ROLES}`,
    )
    expect(poolsOf(document)[0]!['split']).toEqual({ mode: 'always', connector: 'nixl', fallback: 'fail' })
  })

  const registry = JSON.stringify({
    'http://d:2': { receiver_host: 'h', receiver_init_port: [7300], receiver_alloc_port: [7400] },
    'http://d2:3/': { receiver_host: 'h2', receiver_init_port: [7301, 7302], receiver_alloc_port: [7401, 7402] },
  })
  it.each([
    ['--routing-threshold 4096', { mode: 'threshold', threshold_tokens: 4096, estimate: 'chars4', connector: 'nixl' }],
    ['--routing-threshold 0 --disagg-connector-type nixl', { mode: 'always', connector: 'nixl' }],
    [
      '--disagg-connector-type lmcache --decoder-host h --decoder-init-port 7300,7301 --decoder-alloc-port 7400,7401',
      {
        mode: 'always',
        connector: 'lmcache',
        lmcache: {
          decoders: Object.fromEntries(
            ['decode', 'decode-2'].map((id) => [
              id,
              { host: 'h', init_ports: [7300, 7301], alloc_ports: [7400, 7401] },
            ]),
          ),
        },
      },
    ],
    [
      `--disagg-connector-type lmcache --decoder-registry '${registry}'`,
      {
        mode: 'always',
        connector: 'lmcache',
        lmcache: {
          decoders: {
            decode: { host: 'h', init_ports: [7300], alloc_ports: [7400] },
            'decode-2': { host: 'h2', init_ports: [7301, 7302], alloc_ports: [7401, 7402] },
          },
        },
      },
    ],
  ])('the production-stack converter converts the flags of #890: %s', async (flags, split) => {
    const { code, document, out } = await convertFile(
      'production-stack',
      `vllm-router --routing-logic disaggregated_prefill --load-balancing-strategy least_loaded ${flags} ${ROLES}`,
    )
    expect(code).toBe(0)
    expect(poolsOf(document)[0]).toMatchObject({ policy: 'least_loaded', split })
    expect(out).not.toContain('unknown to firstlight convert')
  })

  it('the production-stack converter names a decoder of the registry that is no engine, and a missing receiver', async () => {
    const lmcache = `vllm-router --routing-logic disaggregated_prefill --disagg-connector-type lmcache ${ROLES}`
    const other = await convertFile('production-stack', `${lmcache} --decoder-registry '{"http://x:1": {}}'`)
    expect(other.out).toContain('--decoder-registry http://x:1: is not one of the decode engines')
    expect((await convertFile('production-stack', lmcache)).out).toContain('the source names no receiver')
  })

  it('the production-stack converter converts a dynamic configuration with nested models', async () => {
    const { code, document } = await convertFile(
      'production-stack',
      `service_discovery: static
routing_logic: roundrobin
static_models:
  m/A: { static_backends: ["http://a:8000", "http://b:8000"], static_model_type: chat }
static_aliases: { small: m/A }`,
    )
    expect(code).toBe(0)
    expect(poolsOf(document)).toEqual([
      {
        model: 'm/A',
        aliases: ['small'],
        policy: 'round_robin',
        engines: [
          { id: 'engine', url: 'http://a:8000' },
          { id: 'engine-2', url: 'http://b:8000' },
        ],
      },
    ])
  })

  it('the production-stack converter converts the container of a Deployment that discovers pods', async () => {
    const { code, document } = await convertFile(
      'production-stack',
      `kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: router
          command: ["vllm-router"]
          args: ["--port", "8000", "--service-discovery", "k8s", "--k8s-label-selector", "app=vllm", "--k8s-port",
                 "8100", "--k8s-namespace", "llm", "--routing-logic", "prefixaware"]`,
      '--model',
      'm/A',
    )
    expect(code).toBe(0)
    expect(poolsOf(document)[0]!.engines).toEqual([
      {
        id: 'vllm',
        url: 'http://pods:8100',
        discover: 'kubernetes',
        kubernetes: { namespace: 'llm', selector: 'app=vllm' },
      },
    ])
  })
})

describe('vllm-router', () => {
  const flags = (...words: string[]) => firstlight('convert', '--from', 'vllm-router', '--model', 'm/A', '--', ...words)

  it('the vllm-router converter converts flags of the command line', async () => {
    const { code, out } = await flags('--worker-urls', 'http://a:1/', 'b:2', '--balance-abs-threshold', '32')
    expect(code).toBe(0)
    expect(poolsOf(load(out) as Record<string, unknown>)).toEqual([
      {
        model: 'm/A',
        policy: { name: 'prefix', min_match: 0.3, imbalance_abs: 32, imbalance_rel: 1.5 },
        engines: [
          { id: 'engine', url: 'http://a:1' },
          { id: 'engine-2', url: 'http://b:2' },
        ],
      },
    ])
  })

  it('the vllm-router converter does not copy a key into the document', async () => {
    const { out } = await flags('--worker-urls', 'http://a:1', '--api-key', 'sk-secret')
    expect(out).not.toContain('sk-secret')
    expect(out).toContain('env: ENGINE_KEY')
  })

  it('the vllm-router converter reports a flag that it does not know', async () => {
    const { out } = await flags('--worker-urls', 'http://a:1', '--brand-new', '7')
    expect(out).toContain('--brand-new 7: unknown to firstlight convert')
  })

  it('the vllm-router converter keeps the number of data-parallel ranks', async () => {
    const { out } = await flags('--worker-urls', 'http://a:1', '--intra-node-data-parallel-size', '2')
    expect(poolsOf(load(out) as Record<string, unknown>)[0]!.engines).toMatchObject([
      { url: 'http://a:1', data_parallel: 2 },
    ])
  })
})

describe('litellm', () => {
  const config = `model_list:
  - { model_name: chat, litellm_params: { model: hosted_vllm/m/A, api_base: "http://a:8000/v1", weight: 2 } }
  - { model_name: chat, litellm_params: { model: openai/m/A, api_base: "http://b:8000", api_key: sk-literal, rpm: 3 } }
  - { model_name: chat, litellm_params: { model: openai/m/B, api_base: "http://c:8000" } }
  - { model_name: claude, litellm_params: { model: anthropic/claude, api_key: os.environ/KEY } }
router_settings: { routing_strategy: least-busy, cooldown_time: 30, allowed_fails: 2, fallbacks: [{ chat: [claude] }] }
litellm_settings: { success_callback: [langfuse], cache: true }
general_settings: { master_key: os.environ/MASTER, database_url: "postgres://u:p@h/d" }`

  it('the litellm converter makes a pool of the deployments of one model, and shares a group of several models by weight', async () => {
    const { code, document } = await convertFile('litellm', config)
    expect(code).toBe(0)
    expect(document['weighted_models']).toEqual([
      {
        name: 'chat',
        targets: [
          { model: 'm/A', weight: 3 },
          { model: 'm/B', weight: 1 },
        ],
      },
    ])
    expect(document['keys']).toEqual([{ name: 'clients', secret: { env: 'MASTER' } }])
    expect(document['admin']).toEqual({ secret: { env: 'FIRSTLIGHT_ADMIN_KEY' } })
    const circuit = { failures: 2, open_ms: 30_000 }
    expect(poolsOf(document)).toEqual([
      {
        model: 'm/A',
        policy: 'least_loaded',
        circuit,
        engines: [
          { id: 'chat', url: 'http://a:8000', weight: 2 },
          { id: 'chat-2', url: 'http://b:8000', key: { env: 'CHAT_2_KEY' } },
        ],
      },
      { model: 'm/B', policy: 'least_loaded', circuit, engines: [{ id: 'chat-3', url: 'http://c:8000' }] },
    ])
  })

  it('the litellm converter makes the group of one model an alias, and gives other names of a group the same models', async () => {
    const { code, document } = await convertFile(
      'litellm',
      `model_list:
  - { model_name: chat, litellm_params: { model: hosted_vllm/m/A, api_base: "http://a:8000/v1" } }
  - { model_name: mixed, litellm_params: { model: hosted_vllm/m/B, api_base: "http://b:8000/v1", weight: 9 } }
  - { model_name: mixed, litellm_params: { model: hosted_vllm/m/C, api_base: "http://c:8000/v1" } }
router_settings: { model_group_alias: { gpt-4: chat, gpt-5: mixed } }`,
    )
    expect(code).toBe(0)
    const targets = [
      { model: 'm/B', weight: 9 },
      { model: 'm/C', weight: 1 },
    ]
    expect(document['weighted_models']).toEqual([
      { name: 'mixed', targets },
      { name: 'gpt-5', targets },
    ])
    expect(poolsOf(document).map(({ model, aliases = [] }) => [model, aliases])).toEqual([
      ['m/A', ['chat', 'gpt-4']],
      ['m/B', []],
      ['m/C', []],
    ])
  })

  it('the litellm converter makes a provider of the same group, or of its fallbacks, the last resort', async () => {
    const { code, document } = await convertFile(
      'litellm',
      `model_list:
  - { model_name: chat, litellm_params: { model: hosted_vllm/m/A, api_base: "http://a:8000/v1" } }
  - { model_name: paid, litellm_params: { model: gpt-x, api_key: os.environ/MY_KEY } }
router_settings: { fallbacks: [{ chat: [paid] }] }`,
    )
    expect(code).toBe(0)
    expect(poolsOf(document)[0]!.engines).toEqual([
      { id: 'chat', url: 'http://a:8000' },
      { id: 'paid', url: 'https://api.openai.com', kind: 'external', provider_model: 'gpt-x', key: { env: 'MY_KEY' } },
    ])
  })

  it('the litellm converter reports providers, limits, fallbacks and callbacks, and no secret', async () => {
    const { out } = await convertFile('litellm', config)
    for (const item of ['model anthropic/claude', 'rpm of chat-2', 'router_settings.fallbacks', 'success_callback'])
      expect(out).toContain(item)
    expect(out).not.toContain('sk-literal')
    expect(out).not.toContain('postgres')
  })
})

describe('dynamo', () => {
  it('the dynamo converter converts a launch script: an engine for each worker', async () => {
    const { code, document, out } = await convertFile(
      'dynamo',
      `MODEL="m/A"
python -m dynamo.frontend --router-mode kv --http-port 8000 --kv-cache-block-size 64 --router-reset-states &
CUDA_VISIBLE_DEVICES=0 python3 -m dynamo.vllm --model $MODEL --is-decode-worker &
python3 -m dynamo.vllm --model $MODEL --is-prefill-worker`,
    )
    expect(code).toBe(0)
    expect(poolsOf(document)).toEqual([
      {
        model: 'm/A',
        policy: 'active_blocks',
        block_tokens: 64,
        engines: [
          { id: 'decode', url: 'http://decode:8000', role: 'decode' },
          { id: 'prefill', url: 'http://prefill:8000', role: 'prefill' },
        ],
      },
    ])
    expect(out).toContain('--router-reset-states: not needed')
    expect(out).toContain('Start each worker as vllm serve')
  })

  it('the dynamo converter converts the files of the frontend’s certificate', async () => {
    const frontend = 'python -m dynamo.frontend --tls-cert-path'
    const { document, out } = await convertFile('dynamo', `${frontend} a.pem --tls-key-path b.pem`)
    expect(document['tls']).toEqual({ cert: 'a.pem', key: 'b.pem' })
    expect(out).not.toContain('tls-')
    expect((await convertFile('dynamo', `${frontend} a.pem`)).out).toContain('only one of certificate and key')
  })

  it.each([
    [
      'v1alpha1',
      'services: { Frontend: { componentType: frontend, envs: [{ name: DYN_ROUTER_MODE, value: kv }] }, W: { replicas: 2, extraPodSpec: { mainContainer: { command: [python3, -m, dynamo.vllm], args: [--model, m/A] } } } }',
    ],
    [
      'v1beta1',
      'components: [{ name: Frontend, type: frontend, podTemplate: { spec: { containers: [{ env: [{ name: DYN_ROUTER_MODE, value: kv }] }] } } }, { name: W, type: worker, replicas: 2, podTemplate: { spec: { containers: [{ command: [python3, -m, dynamo.vllm], args: [--model, m/A] }] } } }]',
    ],
  ])('the dynamo converter converts a DynamoGraphDeployment %s', async (version, spec) => {
    const { code, document } = await convertFile(
      'dynamo',
      `apiVersion: nvidia.com/${version}\nkind: DynamoGraphDeployment\nspec: { ${spec} }`,
    )
    expect(code).toBe(0)
    expect(poolsOf(document)).toMatchObject([
      { model: 'm/A', policy: 'active_blocks', engines: [{ id: 'engine' }, { id: 'engine-2' }] },
    ])
  })
})

describe('the command', () => {
  it('the convert command names the accepted sources of a file that is none', async () => {
    const { code, err } = await convertFile('litellm', 'hello: world')
    expect(code).toBe(2)
    expect(err).toContain('is not a configuration of litellm.\nGive the config.yaml of the proxy, with model_list.')
  })

  it('the convert command returns 1 and the problems for a document that is not valid yet', async () => {
    const { code, err } = await firstlight('convert', '--from', 'vllm-router', '--', '--policy', 'random')
    expect(code).toBe(1)
    expect(err).toContain('engines')
  })
})

describe('the examples of docs/coming-from.md', () => {
  const page = readFileSync(fileURLToPath(new URL('../../docs/coming-from.md', import.meta.url)), 'utf8')
  const [, examples = ''] = page.split('\n## Examples\n')
  const pairs = examples
    .split(/^### /m)
    .slice(1)
    .map((section) => {
      const [before, after] = [...section.matchAll(/```\w+\n([\s\S]*?)```/g)].map(([, text]) => text!)
      const [, from, title] = /^(\S+): (.*)$/m.exec(section)!
      return { from: from!, title: title!, before: before!, after: after! }
    })

  it('the examples of docs/coming-from.md are pairs of all routers', () => {
    expect(new Set(pairs.map(({ from }) => from))).toEqual(
      new Set(['production-stack', 'vllm-router', 'litellm', 'dynamo']),
    )
  })

  it.each(pairs)('$from, $title: is what the command prints', async ({ from, before, after }) => {
    const { code, document } = await convertFile(from, before, '--model', 'Qwen/Qwen3-8B')
    expect(code).toBe(0)
    expect(load(after)).toEqual(document)
  })
})
