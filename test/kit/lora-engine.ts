/** An engine that loads adapters at run time, as vLLM or SGLang does. */
import type { FakeAnswer } from './fake-answer.ts'
import { FakeEngine } from './fake-engine.ts'
import { MODEL } from './gateway.ts'
import { completion } from './sse.ts'

export type LoraType = 'vllm' | 'sglang'

const PREFIX = { vllm: '/v1', sglang: '' } as const

const SIGNS = {
  vllm: 'vllm:num_requests_running{engine="0"} 0.0\n',
  sglang: 'sglang:num_running_reqs{model_name="m"} 0.0\n',
} as const

export class LoraEngine {
  readonly type: LoraType
  readonly loaded: Set<string>
  /** Loads and unloads, such as `+sql`. */
  readonly changes: string[] = []
  /** Models of chats that were answered; `base` for a name that SGLang takes for its base model. */
  readonly answered: string[] = []
  /** Bodies of loads. */
  readonly bodies: unknown[] = []
  /** Loads wait for it. */
  gate: Promise<void> = Promise.resolve()
  /** Answers of loads that fail. Absent: they succeed. */
  failure: FakeAnswer | null = null
  engine!: FakeEngine

  private constructor(type: LoraType, loaded: readonly string[]) {
    this.type = type
    this.loaded = new Set(loaded)
  }

  static async open(type: LoraType, loaded: readonly string[] = []): Promise<LoraEngine> {
    const one = new LoraEngine(type, loaded)
    one.engine = await FakeEngine.open({
      'GET /v1/models': () => ({ body: one.#list() }),
      'GET /metrics': { body: SIGNS[type] },
      'POST /v1/chat/completions': (request) => (request.isTrial ? { body: completion() } : one.#chat(request.json)),
      [`POST ${PREFIX[type]}/load_lora_adapter`]: (request) => one.#load(request.json),
      [`POST ${PREFIX[type]}/unload_lora_adapter`]: (request) => one.#unload(String(request.json['lora_name'])),
    })
    return one
  }

  get url(): string {
    return this.engine.url
  }

  close(): Promise<void> {
    return this.engine.close()
  }

  #list(): object {
    const adapters = [...this.loaded].map((id) => ({ id, object: 'model', parent: MODEL, root: `/adapters/${id}` }))
    return { object: 'list', data: [{ id: MODEL, object: 'model', parent: null }, ...adapters] }
  }

  #chat({ model }: Readonly<Record<string, unknown>>): FakeAnswer {
    const name = String(model)
    const adapter = this.type === 'vllm' ? name : (name.split(':')[1] ?? null)
    if (name !== MODEL && adapter !== null && !this.loaded.has(adapter)) return this.#lacks(name)
    this.answered.push(name === MODEL ? MODEL : (adapter ?? 'base'))
    return { body: completion('hello') }
  }

  #lacks(name: string): FakeAnswer {
    const message =
      this.type === 'vllm'
        ? `The model \`${name}\` does not exist.`
        : `Got LoRA adapter that has never been loaded: ${name.split(':')[1]}`
    return { status: this.type === 'vllm' ? 404 : 400, body: { error: { message, type: 'NotFoundError' }, message } }
  }

  async #load(body: Readonly<Record<string, unknown>>): Promise<FakeAnswer> {
    this.bodies.push(body)
    await this.gate
    if (this.failure !== null) return this.failure
    const name = String(body['lora_name'])
    if (this.loaded.has(name)) return { status: 400, body: { error: { message: 'already loaded', code: 400 } } }
    this.loaded.add(name)
    this.changes.push(`+${name}`)
    return { body: { success: true } }
  }

  #unload(name: string): FakeAnswer {
    if (!this.loaded.delete(name)) return { status: 404, body: { error: { message: 'not found', code: 404 } } }
    this.changes.push(`-${name}`)
    return { body: { success: true } }
  }
}
