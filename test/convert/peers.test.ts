/**
 * Inputs of the same shape as the example files of LiteLLM (`litellm/proxy/example_config_yaml`) and Dynamo
 * (`examples/backends`), read in November 2026. What has no counterpart is named.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { load } from 'js-yaml'
import { firstlight } from '../cli/run-cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'convert-'))
afterAll(() => rmSync(folder, { recursive: true }))

interface Pool {
  readonly model: string
  readonly aliases?: readonly string[]
  readonly policy?: unknown
  readonly block_tokens?: number
  readonly engines: readonly Record<string, unknown>[]
}

let files = 0
/** Converts a source. `notes`: the comments in one line. */
async function converted(from: 'litellm' | 'dynamo', text: string) {
  const file = join(folder, `source-${files++}`)
  writeFileSync(file, text)
  const { code, out } = await firstlight('convert', '--from', from, file)
  const document = load(out) as { listen: string; clusters: { pools: Pool[] }[] }
  const notes = out.replaceAll(/\n#? */g, ' ')
  return { code, notes, listen: document.listen, pools: document.clusters[0]!.pools }
}

describe('examples of LiteLLM', () => {
  it('several groups and models behind one address: one engine, the others are named', async () => {
    const { code, pools, notes } = await converted(
      'litellm',
      `model_list:
  - { model_name: a, litellm_params: { model: openai/one, api_base: "https://h/", api_key: k, tags: [t], stream_timeout: 1 } }
  - { model_name: b, litellm_params: { model: openai/one, api_base: "https://h/", api_key: k }, model_info: { id: "1" } }
  - { model_name: c, litellm_params: { model: openai/two, api_base: "https://h/", api_key: k }, rpm: 3 }
router_settings: { model_group_alias: { other: b, lost: c } }`,
    )
    expect(code).toBe(0)
    expect(pools.map(({ model, aliases }) => ({ model, aliases }))).toEqual([
      { model: 'one', aliases: ['a', 'b', 'other'] },
    ])
    expect(pools[0]!.engines).toEqual([{ id: 'a', url: 'https://h', key: { env: 'A_KEY' } }])
    expect(notes).toContain('b (openai/one): https://h is engine a. An address is one engine.')
    expect(notes).toContain('c (openai/two): https://h serves one. An engine has one base model.')
    expect(notes).toContain('tags of a: not supported')
    expect(notes).toContain('stream_timeout of a: timeouts are per pool')
  })

  it('Ollama: its server with the API of OpenAI', async () => {
    const { code, pools, notes } = await converted(
      'litellm',
      `model_list:
  - { model_name: gpt-4, litellm_params: { model: ollama/llama2, temperature: 0.1 } }
  - { model_name: zephyr, litellm_params: { model: ollama_chat/zephyr, api_base: "http://other:11434" } }`,
    )
    expect(code).toBe(0)
    expect(pools.map(({ model, engines }) => [model, engines[0]!['url']])).toEqual([
      ['llama2', 'http://localhost:11434'],
      ['zephyr', 'http://other:11434'],
    ])
    expect(notes).toContain('temperature of gpt-4: not supported: requests are not changed.')
  })

  it('a provider with limits of its own, and what the document cannot have', async () => {
    const { code, pools, notes } = await converted(
      'litellm',
      `model_list:
  - { model_name: chat, litellm_params: { model: hosted_vllm/m, api_base: "http://a:8000" } }
  - { model_name: chat, litellm_params: { model: gpt-x, api_key: os.environ/OPENAI_API_KEY, timeout: 300 }, tpm: 20000 }
  - { model_name: lonely, litellm_params: { model: gpt-x, api_key: sk-literal } }
  - { model_name: "*", litellm_params: { model: openai/*, api_key: os.environ/OPENAI_API_KEY } }
  - { model_name: big, litellm_params: { model: azure/chat, api_base: "https://x.openai.azure.com/" } }
finetune_settings: [{ custom_llm_provider: openai }]
litellm_settings: { default_team_settings: [{ team_id: t, langfuse_secret: os.environ/S }], request_timeout: 600 }
general_settings: { master_key: sk-1234, pass_through_endpoints: [{ path: /v1/rerank, target: "https://c/" }] }`,
    )
    expect(code).toBe(0)
    expect(pools[0]!.engines.map(({ id, kind }) => [id, kind])).toEqual([
      ['chat', undefined],
      ['chat-2', 'external'],
    ])
    for (const item of [
      'timeout of chat-2: timeouts are per pool',
      'tpm of chat-2: limits are per client key',
      'model gpt-x: a provider is a last resort: its group has no engine.',
      'model openai/*: wildcards are not supported',
      'model azure/chat: not supported',
      'finetune_settings: not supported.',
      'litellm_settings.default_team_settings: not supported.',
      'general_settings.pass_through_endpoints: not supported.',
    ])
      expect(notes).toContain(item)
    expect(notes).not.toContain('sk-')
  })
})

const graph = (version: string, spec: string) =>
  `apiVersion: nvidia.com/${version}\nkind: DynamoGraphDeployment\nspec: { ${spec} }`
const rolesOf = (pools: readonly Pool[]) => pools.flatMap(({ engines }) => engines.map(({ role }) => role))

describe('examples of Dynamo', () => {
  it('roles are named by flag, by kind of component, or follow from the other workers', async () => {
    const { code, pools, notes } = await converted(
      'dynamo',
      graph(
        'v1alpha1',
        `services: {
  Frontend: { componentType: frontend },
  Planner: { componentType: planner, extraPodSpec: { mainContainer: { command: [python3, -m, planner_sla] } } },
  Decode: { componentType: worker, extraPodSpec: { mainContainer: { command: [python3], args: [-m, dynamo.vllm, --model, m/A] } } },
  Prefill: { componentType: worker, subComponentType: prefill, multinode: { nodeCount: 2 }, extraPodSpec: { mainContainer: {
    command: [python3, -m, dynamo.vllm], args: [--model, m/A, --tensor-parallel-size, "2"] } } },
  Encode: { componentType: worker, extraPodSpec: { mainContainer: {
    command: [python3, -m, dynamo.vllm], args: [--model, m/A, --multimodal-encode-worker] } } } }`,
      ),
    )
    expect(code).toBe(0)
    expect(rolesOf(pools)).toEqual(['decode', 'prefill', 'encode'])
    expect(notes).toContain('Planner: not supported. The gateway does not scale engines')
    expect(notes).toContain('multinode of Prefill: one engine')
  })

  it('workers of TensorRT-LLM and SGLang prefill and decode: the split has no counterpart', async () => {
    const worker = (kind: string) =>
      `{ name: ${kind}, type: ${kind}, podTemplate: { spec: { containers: [{ name: main, command: [python3, -m, dynamo.trtllm],
         args: [--model-path, m/A, --disaggregation-mode, ${kind}] }] } } }`
    const { code, pools, notes } = await converted(
      'dynamo',
      graph('v1beta1', `components: [{ name: F, type: frontend }, ${worker('prefill')}, ${worker('decode')}]`),
    )
    expect(code).toBe(0)
    expect(pools.map(({ model }) => model)).toEqual(['m/A'])
    expect(rolesOf(pools)).toEqual([undefined, undefined])
    expect(notes).toContain('prefill workers: only vLLM can prefill for another engine here.')
    expect(notes).toContain('Start each worker as trtllm-serve')
  })

  it('an endpoint picker is the gateway; a shell script is read with the variables of its container', async () => {
    const { code, pools, notes } = await converted(
      'dynamo',
      graph(
        'v1beta1',
        `components: [
  { name: Epp, type: epp, podTemplate: { spec: { containers: [{ name: main, env: [{ name: DYN_KV_CACHE_BLOCK_SIZE, value: "128" }] }] } } },
  { name: W, type: decode, frontendSidecar: side, podTemplate: { spec: { containers: [
    { name: main, command: [/bin/sh, -c], args: ["python3 -m dynamo.vllm --model $MODEL --kv-events-config '{}'"],
      env: [{ name: MODEL, value: m/A }] },
    { name: side, args: [-m, dynamo.frontend, --router-mode, direct] }] } } }]`,
      ),
    )
    expect(code).toBe(0)
    expect(pools).toEqual([
      {
        model: 'm/A',
        policy: 'active_blocks',
        block_tokens: 128,
        engines: [{ id: 'engine', url: 'http://engine:8000' }],
      },
    ])
    expect(notes).toContain('Epp: not needed. The gateway chooses the engine itself. Its plugins have no counterpart.')
  })

  it('a script with several frontends, loops and its own flags', async () => {
    const { code, listen, pools, notes } = await converted(
      'dynamo',
      `MODEL="m/A"
PORT="\${HTTP_PORT:-8001}"
while [[ $# -gt 0 ]]; do
  case "$1" in
    --mode) MODE="$2"; shift 2 ;;
  esac
done
echo "  curl http://localhost:\${PORT}/v1/models \\\\"
python -m dynamo.frontend --router-mode kv --router-reset-states --http-port "$PORT" $EXTRA &
python -m dynamo.frontend --router-mode kv --http-port 8002 &
for i in {0..3}; do
    PORT_OF=$((20096 + i)) CUDA_VISIBLE_DEVICES=$i python3 -m dynamo.vllm --model $MODEL --data-parallel-rank $i &
done
wait`,
    )
    expect(code).toBe(0)
    expect(listen).toBe('0.0.0.0:8001')
    expect(pools).toMatchObject([{ model: 'm/A', policy: 'active_blocks', engines: [{ id: 'engine' }] }])
    expect(notes).toContain('$EXTRA: the script sets it when it runs.')
    expect(notes).toContain('2 frontends: start this document once for each')
    expect(notes).toContain('for i in {0..3}: a worker started in a loop is listed once.')
    expect(notes).not.toContain('while')
    expect(notes).toContain('--router-reset-states: not needed')
  })
})
