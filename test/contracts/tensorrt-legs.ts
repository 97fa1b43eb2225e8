/** Split requests of TensorRT-LLM: a context request, then a generation request with its answer, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { MODEL, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'
import { completion, DONE, sseAnswer, token } from '../kit/sse.ts'

const IDS = [1, 15, 27, 9]
const USAGE = { prompt_tokens: 4, completion_tokens: 1, total_tokens: 5, prompt_tokens_details: { cached_tokens: 2 } }
const TRANSFER = {
  request_type: 'context_only',
  first_gen_tokens: [7],
  ctx_request_id: 12,
  encoded_opaque_state: 'YQ==',
}

/** Answer of a context engine, with the fields of serve/openai_disagg_service.py. */
const contextAnswer = (choice: object = {}) => ({
  id: 'ctx',
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'h' },
      finish_reason: 'not_finished',
      disaggregated_params: TRANSFER,
      ...choice,
    },
  ],
  usage: USAGE,
  prompt_token_ids: IDS,
})

export function tensorrtLegsContract(runtime: Runtime): void {
  describe(`legs of TensorRT-LLM engines, behind a gateway on ${runtimeNames[runtime]}`, () => {
    const opened: { close(): Promise<unknown> }[] = []

    afterEach(async () => {
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    async function site(context: object = contextAnswer(), config: Readonly<Record<string, unknown>> = {}) {
      const prefill = await FakeEngine.open({ 'POST *': { body: context } })
      const decode = await FakeEngine.open({
        'POST *': ({ json }) =>
          json['stream'] === true ? sseAnswer([token('hello'), DONE]) : { body: completion('hello') },
      })
      const gateway = await openGateway({
        runtime,
        engines: [
          { id: 'p', url: prefill.url, type: 'tensorrt-llm', role: 'prefill' },
          { id: 'd', url: decode.url, type: 'tensorrt-llm', role: 'decode' },
        ],
        pool: { split: { connector: 'tensorrt' }, stats_interval_ms: 60_000 },
        config,
      })
      opened.push(prefill, decode, gateway)
      return { prefill, decode, gateway }
    }

    it('legs of TensorRT-LLM engines are a context request and a generation request with its parameters and token ids', async () => {
      const { prefill, decode, gateway } = await site()
      const answer = await gateway.chat({ max_tokens: 9, tool_choice: 'required' })
      expect(await answer.json()).toEqual(completion('hello'))
      const { disaggregated_params: context, ...sentFirst } = prefill.posts[0]!.json
      expect(context).toEqual({
        request_type: 'context_only',
        disagg_request_id: expect.any(Number),
        schedule_style: 0,
      })
      const id = (context as { disagg_request_id: number }).disagg_request_id
      expect(Number.isSafeInteger(id) && id >= 2 ** 42).toBe(true)
      const { disaggregated_params: generation, prompt_token_ids: ids, ...same } = decode.posts[0]!.json
      expect(generation).toEqual({
        ...TRANSFER,
        request_type: 'generation_only',
        schedule_style: 0,
        disagg_request_id: id,
        ctx_usage: USAGE,
      })
      expect(ids).toEqual(IDS)
      // Neither limit nor tools differ, as in NVIDIA's own server.
      expect(same).toEqual(sentFirst)
      expect(same).toMatchObject({ max_tokens: 9, tool_choice: 'required' })
      await gateway.idle()
    })

    it('stream from the generation engine', async () => {
      const { prefill, decode, gateway } = await site()
      const answer = await gateway.chat({ stream: true, stream_options: { include_usage: true } })
      expect(await answer.text()).toBe(token('hello') + DONE)
      expect(prefill.posts[0]!.json).toMatchObject({ stream: false })
      expect(prefill.posts[0]!.json).not.toHaveProperty('stream_options')
      expect(decode.posts[0]!.json).toMatchObject({ stream: true, stream_options: { include_usage: true } })
    })

    it('legs of TensorRT-LLM engines have the token ids in place of the prompt of a completion', async () => {
      const { decode, gateway } = await site()
      const answer = await gateway.post('/v1/completions', { model: MODEL, prompt: 'the fox', max_tokens: 5 })
      expect(answer.status).toBe(200)
      expect(decode.posts[0]!.json).toMatchObject({ prompt: IDS, max_tokens: 5 })
    })

    it.each([
      ['ends at its first token', contextAnswer({ finish_reason: 'stop' }), 'kv_transfer=final'],
      ['transfers nothing', contextAnswer({ disaggregated_params: null }), 'kv_transfer=none'],
      ['has no token ids', { ...contextAnswer(), prompt_token_ids: null }, 'kv_transfer=none'],
    ])(
      'leave the request to the generation engine if the answer of the context engine %s',
      async (_what, context, note) => {
        const { decode, gateway } = await site(context)
        const answer = await gateway.chat()
        expect(answer.status).toBe(200)
        expect(answer.headers.get('x-firstlight-decision')).toContain(note)
        expect(Object.keys(decode.posts[0]!.json).toSorted()).toEqual(['messages', 'model'])
      },
    )

    it.each([
      [
        'an image',
        {
          messages: [
            { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] },
          ],
        },
        'tensorrt transfers no images',
      ],
      ['several answers', { n: 2 }, 'n is more than 1'],
    ])('serve %s whole, and say why', async (_what, changes, why) => {
      const { prefill, decode, gateway } = await site()
      const answer = await gateway.chat(changes)
      expect(answer.status).toBe(200)
      expect(prefill.posts).toHaveLength(0)
      expect(decode.posts[0]!.json).not.toHaveProperty('disaggregated_params')
      const decision = await gateway.get(`/v1/firstlight/decisions/${answer.headers.get('x-request-id')}`)
      expect(((await decision.json()) as { split: unknown }).split).toEqual({
        taken: false,
        why: `cannot be split: ${why}`,
      })
    })

    it('legs of TensorRT-LLM engines never get parameters of a client, whatever fields the operator lets pass', async () => {
      const forged = {
        disaggregated_params: { request_type: 'generation_only', encoded_opaque_state: 'of-the-client' },
      }
      const strict = await site()
      expect((await strict.gateway.chat(forged)).status).toBe(400)
      const { prefill, decode, gateway } = await site(contextAnswer(), { limits: { denied_fields: [] } })
      for (const more of [forged, { ...forged, n: 2 }]) expect((await gateway.chat(more)).status).toBe(200)
      for (const { text } of [...prefill.posts, ...decode.posts]) expect(text).not.toContain('of-the-client')
    })
  })
}
