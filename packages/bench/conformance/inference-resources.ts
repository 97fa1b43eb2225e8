/** Resources of the Inference Extension in a real API server: one InferencePool, and InferenceObjectives. */
import { readFileSync } from 'node:fs'
import { type ApiAnswer, type ApiServer, MERGE_PATCH } from './api-server.ts'
import { check } from './row.ts'
import { inCache } from './standalone.ts'
import { until } from './until.ts'

const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** Fields of an InferenceObjective that the gateway reads. Any value is accepted, so that malformed ones arrive. */
const OBJECTIVES = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: {
    name: 'inferenceobjectives.llm-d.ai',
    annotations: { 'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/gateway-api-inference-extension' },
  },
  spec: {
    group: 'llm-d.ai',
    scope: 'Namespaced',
    names: {
      kind: 'InferenceObjective',
      listKind: 'InferenceObjectiveList',
      plural: 'inferenceobjectives',
      singular: 'inferenceobjective',
    },
    versions: [
      {
        name: 'v1alpha2',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: { spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
          },
        },
      },
    ],
  },
}

/** Name of the pool. */
const POOL = 'qwen'

export class InferenceResources {
  readonly #api: ApiServer
  readonly #path: string
  readonly #objectives: string

  constructor(api: ApiServer) {
    this.#api = api
    this.#path = `/apis/inference.networking.k8s.io/v1/namespaces/${api.namespace}/inferencepools`
    this.#objectives = `/apis/llm-d.ai/v1alpha2/namespaces/${api.namespace}/inferenceobjectives`
  }

  /** Installs both definitions. Resolves when their resources can be created. */
  async define(): Promise<void> {
    const pools = readFileSync(inCache('kubernetes', 'inferencepools.yaml'), 'utf8')
    for (const [body, type, path] of [
      [pools, 'application/yaml', this.#path],
      [OBJECTIVES, 'application/json', this.#objectives],
    ] as const) {
      const { status, body: answer } = await this.#api.request({ method: 'POST', path: DEFINITIONS, body, type })
      check(status === 201, `the definition was refused: ${status} ${answer.slice(0, 300)}`)
      await until(async () => (await this.#api.request({ method: 'GET', path })).status === 200, path)
    }
  }

  create(ports: readonly number[], labels: object = { app: 'vllm' }): Promise<ApiAnswer> {
    const spec = {
      selector: { matchLabels: labels },
      targetPorts: ports.map((number) => ({ number })),
      endpointPickerRef: { name: 'firstlight', port: { number: 9002 } },
    }
    const body = {
      apiVersion: 'inference.networking.k8s.io/v1',
      kind: 'InferencePool',
      metadata: { name: POOL },
      spec,
    }
    return this.#api.request({ method: 'POST', path: this.#path, body })
  }

  change(spec: object): Promise<ApiAnswer> {
    return this.#api.request({ method: 'PATCH', path: `${this.#path}/${POOL}`, body: { spec }, type: MERGE_PATCH })
  }

  read(): Promise<ApiAnswer> {
    return this.#api.request({ method: 'GET', path: `${this.#path}/${POOL}` })
  }

  remove(): Promise<ApiAnswer> {
    return this.#api.request({ method: 'DELETE', path: `${this.#path}/${POOL}` })
  }

  /** Creates an objective, or changes it. */
  async setObjective(name: string, priority: unknown, pool = POOL): Promise<void> {
    const spec = { priority, poolRef: { name: pool } }
    const body = { apiVersion: 'llm-d.ai/v1alpha2', kind: 'InferenceObjective', metadata: { name }, spec }
    const created = await this.#api.request({ method: 'POST', path: this.#objectives, body })
    if (created.status === 201) return
    const path = `${this.#objectives}/${name}`
    const changed = await this.#api.request({ method: 'PATCH', path, body: { spec }, type: MERGE_PATCH })
    check(changed.status === 200, `the objective was refused: ${changed.status} ${changed.body.slice(0, 300)}`)
  }

  async removeObjective(name: string): Promise<void> {
    const { status } = await this.#api.request({ method: 'DELETE', path: `${this.#objectives}/${name}` })
    check(status === 200, `the deletion was refused: ${status}`)
  }
}
