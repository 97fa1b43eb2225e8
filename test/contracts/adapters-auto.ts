/** Adapters that clients may request because engines have them loaded, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { MODEL, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'
import { LoraEngine, type LoraType } from '../kit/lora-engine.ts'
import { until } from '../wait.ts'

export function adaptersAutoContract(runtime: Runtime): void {
  describe(`adapters that engines report behind a gateway on ${runtimeNames[runtime]}`, () => {
    const opened: { close(): Promise<unknown> }[] = []

    afterEach(async () => {
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    interface Site {
      readonly type?: LoraType
      readonly pool?: Readonly<Record<string, unknown>>
      readonly config?: Readonly<Record<string, unknown>>
      /** Authorization of all requests. */
      readonly key?: string
    }

    async function site(
      loaded: readonly (readonly string[])[],
      { type = 'vllm', pool = {}, config = {}, key }: Site = {},
    ) {
      const engines = await Promise.all(loaded.map((names) => LoraEngine.open(type, names)))
      const gateway = await openGateway({
        runtime,
        engines: engines.map(({ url }, at) => ({ id: `e${at}`, url, type })),
        pool: { adapters: 'auto', policy: 'round_robin', stats_interval_ms: 100, ...pool },
        config,
      })
      opened.push(...engines, gateway)
      const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
      const send = async (path: string, body?: object) => {
        const answer = await fetch(`${gateway.url}${path}`, {
          method: body === undefined ? 'GET' : 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        return { status: answer.status, engine: answer.headers.get('x-firstlight-engine'), text: await answer.text() }
      }
      const chat = (model: string) =>
        send('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'hello' }] })
      /** Names with their base models. */
      const listed = async (): Promise<Readonly<Record<string, string | null>>> => {
        const { data } = JSON.parse((await send('/v1/models')).text) as {
          readonly data: readonly { readonly id: string; readonly parent: string | null }[]
        }
        return Object.fromEntries(data.map(({ id, parent }) => [id, parent]))
      }
      return { engines, gateway, chat, listed }
    }

    it.each<LoraType>(['vllm', 'sglang'])(
      'adapters that an engine reports are listed with their base model, and requested at that engine (%s)',
      async (type) => {
        const { engines, chat, listed } = await site([[], ['sql']], { type })
        await until(async () => 'sql' in (await listed()))
        expect(await listed()).toEqual({ [MODEL]: null, sql: MODEL })
        for (let sent = 0; sent < 4; sent++) expect(await chat('sql')).toMatchObject({ status: 200, engine: 'e1' })
        expect(engines.map(({ answered }) => answered)).toEqual([[], ['sql', 'sql', 'sql', 'sql']])
        for (const model of ['evil', `${MODEL}:sql`, `${MODEL}:evil`, '../sql'])
          expect((await chat(model)).status).toBe(404)
        expect(engines.flatMap(({ bodies }) => bodies)).toEqual([])
      },
    )

    it('adapters that no engine reports any more are unknown again, and new ones can be requested', async () => {
      const { engines, chat, listed } = await site([['sql', 'poet']])
      await until(async () => 'sql' in (await listed()))
      engines[0]!.loaded.delete('sql')
      engines[0]!.loaded.add('late')
      await until(async () => (await chat('sql')).status === 404)
      expect(await listed()).toEqual({ [MODEL]: null, poet: MODEL, late: MODEL })
      for (const model of ['poet', 'late']) expect((await chat(model)).status).toBe(200)
      expect(engines[0]!.changes).toEqual([])
    })

    it('adapters that engines report never take a name or a pattern of the configuration', async () => {
      const pool = { aliases: ['chat', 'gpt-*'] }
      const { engines, gateway, chat, listed } = await site([['chat', 'gpt-4', 'sql']], { pool })
      await until(async () => 'sql' in (await listed()))
      expect(await listed()).toEqual({ [MODEL]: null, chat: null, sql: MODEL })
      for (const model of ['chat', 'gpt-4', 'chat']) expect((await chat(model)).status).toBe(200)
      expect(engines[0]!.answered).toEqual([MODEL, MODEL, MODEL])
      if (runtime === 'node')
        expect(gateway.logged('adapter_not_served').map(({ adapter }) => adapter)).toEqual(['chat', 'gpt-4'])
    })

    it('adapters that engines report are served to keys that name them, or no models', async () => {
      const keys = [
        { name: 'one', secret: 'secret-of-one', models: ['sql'] },
        { name: 'base', secret: 'secret-of-base', models: [MODEL] },
      ]
      const { gateway, chat, listed } = await site([['sql', 'poet']], {
        config: { open: false, keys },
        key: 'secret-of-one',
      })
      await until(async () => 'sql' in (await listed()))
      expect(await listed()).toEqual({ sql: MODEL })
      expect([(await chat('sql')).status, (await chat('poet')).status, (await chat(MODEL)).status]).toEqual([
        200, 404, 404,
      ])
      const body = JSON.stringify({ model: 'sql', messages: [{ role: 'user', content: 'hello' }] })
      const headers = { authorization: 'Bearer secret-of-base', 'content-type': 'application/json' }
      const answer = await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, body })
      expect(answer.status).toBe(404)
    })
  })
}
