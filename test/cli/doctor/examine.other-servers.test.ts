import { describe, expect, it } from 'vitest'
import { visit } from './ask.ts'
import { FASTAPI } from './recorded-vllm.ts'
import type { Routes } from '../../kit/fake-answer.ts'
import { useEngines } from '../../kit/use-engines.ts'

const stub = useEngines(FASTAPI)

const modelsOf = (owner: string) => ({
  body: { object: 'list', data: [{ id: 'm', object: 'model', owned_by: owner }] },
})
const usage = { prompt_tokens: 30, completion_tokens: 1 }
const common: Routes = {
  'GET /health': { body: { status: 'ok' } },
  'POST /v1/completions': { body: { choices: [], usage } },
}

async function examine(changes: Routes) {
  const server = await stub({ ...common, ...changes })
  const seen = await visit(server.url)
  return { ...seen, is: seen.subjects[0]!.is, calls: server.calls }
}

describe('firstlight doctor before servers other than vLLM', () => {
  it('doctor before other servers names the flag of SGLang that exports its load, and the one that reports cached tokens', async () => {
    const seen = await examine({ 'GET /v1/models': modelsOf('sglang') })
    expect(seen.is).toBe('SGLang')
    expect(seen.find('metrics').next).toBe('Start it with --enable-metrics.')
    expect(seen.find('cached_tokens').next).toBe('Start it with --enable-cache-report.')
  })

  it('doctor before other servers reads the load of TensorRT-LLM from its second path', async () => {
    const seen = await examine({
      'GET /v1/models': modelsOf('tensorrt_llm'),
      'GET /metrics': { body: '[]' },
      'GET /prometheus/metrics': { body: 'trtllm_num_requests_running 2\ntrtllm_num_requests_waiting 1\n' },
    })
    expect(seen.is).toBe('TensorRT-LLM')
    expect(seen.find('metrics').message).toBe('/metrics read: 2 running, 1 waiting')
  })

  it('doctor before other servers advises places for the slots of llama.cpp, and no flags of vLLM', async () => {
    const seen = await examine({
      'GET /v1/models': modelsOf('llamacpp'),
      'GET /metrics': { status: 501, body: { error: { type: 'not_supported_error' } } },
    })
    expect(seen.is).toBe('llama.cpp')
    expect(seen.find('metrics').next).toBe('Start it with --metrics.')
    expect(JSON.stringify(seen.subjects)).toContain('max_in_flight of the engine to total_slots')
    expect(JSON.stringify(seen.subjects)).not.toContain('vllm serve')
  })

  it('doctor before other servers recognises TGI by its metrics', async () => {
    const metrics = { body: 'tgi_batch_current_size 1\ntgi_queue_size 0\n' }
    expect((await examine({ 'GET /v1/models': modelsOf('me'), 'GET /metrics': metrics })).is).toBe('TGI')
  })

  it('doctor before other servers recognises Ollama, which has neither metrics nor /health', async () => {
    const seen = await examine({
      'GET /health': { status: 404 },
      'GET /v1/models': modelsOf('library'),
      'GET /api/version': { body: { version: '0.9.0' } },
    })
    expect(seen.is).toBe('Ollama')
    expect(seen.find('metrics').next).toBe('Ollama has no setting for them.')
    expect(seen.code).toBe(0)
  })

  it('doctor before other servers does not ask vLLM for the version of Ollama', async () => {
    const seen = await examine({ 'GET /v1/models': modelsOf('vllm'), 'GET /version': { body: { version: '0.32.0' } } })
    expect(seen.is).toBe('vLLM 0.32.0')
    expect(seen.calls).not.toContain('GET /api/version')
  })
})
