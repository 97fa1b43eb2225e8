import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EncoderCache } from '../../src/origin/disagg/encoder-cache.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { chat } from '../../src/protocols/chat.ts'
import { mediaItemsOf as itemsOf } from '../../src/protocols/media-items.ts'
import { messages as anthropic } from '../../src/protocols/messages.ts'
import { protocols } from '../../src/protocols/protocols.ts'
import { responses } from '../../src/protocols/responses.ts'

const mediaItemsOf = (body: JsonObject, protocol = chat) => itemsOf(protocol.media!(body))
const image = (url: string) => ({ type: 'image_url', image_url: { url } })

describe('media items of a request', () => {
  it('media items of a request are its images, sounds and videos, each once, in order', () => {
    const audio = { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }
    const video = { type: 'video_url', video_url: { url: 'http://v' } }
    const messages = [
      { role: 'system', content: 'text' },
      { role: 'user', content: [{ type: 'text', text: 'x' }, image('a'), audio, image('a')] },
      { role: 'user', content: [image('b'), video, { type: 'audio_url', audio_url: { url: 's' } }] },
    ]
    expect(mediaItemsOf({ messages }).map(({ part }) => part)).toEqual([
      image('a'),
      audio,
      image('b'),
      video,
      { type: 'audio_url', audio_url: { url: 's' } },
    ])
  })

  it('media items of a request of the Responses API become parts of a chat', () => {
    const input = [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'x' },
          { type: 'input_image', image_url: 'data:a' },
        ],
      },
    ]
    expect(mediaItemsOf({ input }, responses).map(({ part }) => part)).toEqual([image('data:a')])
  })

  it('media items of a request of Messages become parts of a chat, those of tool results too', () => {
    const png = { type: 'base64', media_type: 'image/png', data: 'AAAA' }
    const messages = [
      { role: 'user', content: 'text' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'x' },
          { type: 'image', source: png },
          { type: 'image', source: { type: 'url', url: 'https://host/a.png' } },
          { type: 'image', source: { data: 'BBBB' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', content: 'text' },
          {
            type: 'tool_result',
            content: [
              { type: 'text', text: 'y' },
              { type: 'image', source: { ...png, data: 'CC' } },
            ],
          },
          { type: 'image' },
          { type: 'image', source: { type: 'file', file_id: 'f' } },
          { type: 'image', source: { type: 'url', url: '' } },
        ],
      },
    ]
    expect(mediaItemsOf({ messages }, anthropic).map(({ part }) => part)).toEqual([
      image('data:image/png;base64,AAAA'),
      image('https://host/a.png'),
      image('data:image/jpeg;base64,BBBB'),
      image('data:image/png;base64,CC'),
    ])
  })

  it('media items of a request are distinguished by content only', () => {
    const [a, b] = mediaItemsOf({ messages: [{ content: [image('a'), image('b')] }] })
    expect(a!.key).not.toBe(b!.key)
    expect(mediaItemsOf({ messages: [{ content: [image('b')] }] })[0]!.key).toBe(b!.key)
  })

  it('media items of a request are empty for any other body', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (messages, input) =>
        protocols.every(({ media }) => Array.isArray(itemsOf(media?.({ messages, input }) ?? []))),
      ),
    )
    const deep = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`) as unknown
    // Some JavaScript engines can serialise a document of this depth, and find an item in it.
    expect(
      mediaItemsOf({ messages: [{ content: [{ type: 'image_url', image_url: deep }, { type: deep }] }] }).length,
    ).toBeLessThanOrEqual(1)
    expect(
      mediaItemsOf({ messages: [null, 1, { content: [null, { type: 'image_url' }, { type: 'input_image' }] }] }),
    ).toEqual([])
  })
})

describe('the encoder cache', () => {
  it('the encoder cache equals an LRU list with add, use and forget', () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('add' as const), key: fc.nat(3), engine: fc.nat(2) }),
      fc.record({ do: fc.constant('has' as const), key: fc.nat(3), engine: fc.nat(2) }),
      fc.record({ do: fc.constant('forget' as const), key: fc.nat(3), engine: fc.nat(2) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.nat(5), (steps, limit) => {
        const items = new EncoderCache(limit)
        let list: { key: number; engine: number }[] = []
        for (const { do: act, key, engine } of steps) {
          const found = list.find((one) => one.key === key)
          if (act === 'has') {
            expect(items.has(String(key))).toBe(found !== undefined)
            if (found !== undefined) list = [...list.filter((one) => one !== found), found]
          } else if (act === 'add') {
            items.add(String(key), String(engine))
            list = [...list.filter((one) => one !== found), { key, engine }].slice(limit === 0 ? Infinity : -limit)
          } else {
            items.forget(String(engine))
            list = list.filter((one) => one.engine !== engine)
          }
        }
      }),
    )
  })
})
