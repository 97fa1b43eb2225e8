/** The corpus of event streams: recorded from a real engine, and varied. */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { engineKey, servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { open, send } from '../http.ts'
import { normalise } from '../normaliser.ts'
import { recordFinest } from '../recorder.ts'
import { surface } from '../requests.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { describeStreams, variants } from '../sse-corpus.ts'
import { bodyText, writeLists } from '../vector.ts'

const recorded: Readonly<Record<string, string>> = {
  'chat.sse': 'chat-stream',
  'chat-usage.sse': 'chat-stream-usage',
  'chat-usage-each.sse': 'chat-stream-usage-each',
  'completion.sse': 'completion-echo-stream',
  'tools.sse': 'chat-tools-stream',
  'responses.sse': 'responses-stream',
  'messages.sse': 'messages-stream',
}

export const streamRows: readonly Row[] = [
  {
    name: 'record-streams',
    says: 'Streams end in [DONE] after the usage, also when the engine is paused under them.',
    run: async (lab) => {
      const engine = await lab.engine('a')
      let completion = ''
      for (const [file, name] of Object.entries(recorded)) {
        const text = bodyText((await recordFinest(engine.url, name, surface[name]!)).response)
        lab.writeVector(`sse/${file}`, text)
        if (file === 'completion.sse') completion = text
      }
      const aborted = await pausedStream(engine)
      check(
        aborted.includes('"finish_reason":"abort"') && aborted.endsWith('data: [DONE]\n\n'),
        `a paused stream ended in ${JSON.stringify(aborted.slice(-200))}`,
      )
      lab.writeVector('sse/aborted.sse', aborted)
      for (const [file, text] of Object.entries(variants(completion))) lab.writeVector(`sse/${file}`, text)
      return writeCorpus(lab)
    },
  },
]

/** Describes the content of each file. */
export function writeCorpus(lab: Lab): string {
  const files = Object.fromEntries(
    readdirSync(lab.vectorPath('sse')).map((file) => [file, readFileSync(lab.vectorPath(`sse/${file}`), 'utf8')]),
  )
  const cases = describeStreams(files, new Set(Object.keys(variants(''))))
  return (
    `${cases.length} streams, list ` +
    `${lab.writeVector('sse/corpus.json', writeLists({ about: 'What a correct reader finds in each stream.', streams: cases }))}`
  )
}

/** A long response during which the engine is paused and resumed: its head, its first two and its last events. */
async function pausedStream({ url }: RealEngine): Promise<string> {
  const headers = { authorization: `Bearer ${engineKey}`, 'x-request-id': 'aborted' }
  const messages = [{ role: 'user', content: 'hello' }]
  const body = { model: servedModel, messages, max_tokens: 3000, temperature: 0, ignore_eos: true, stream: true }
  const { response } = await open({ url, method: 'POST', path: '/v1/chat/completions', headers, body })
  const pieces: Buffer[] = []
  const reading = (async () => {
    for await (const piece of response) pieces.push(piece as Buffer)
  })()
  while (pieces.length < 5) await sleep(10)
  await send({ url, method: 'POST', path: '/pause', headers })
  await send({ url, method: 'POST', path: '/resume', headers })
  await reading
  return shortened(normalise(Buffer.concat(pieces).toString('utf8')))
}

/** A stream without most of its middle. */
export function shortened(text: string): string {
  const events = text.split('\n\n').slice(0, -1)
  return [...events.slice(0, 3), ...events.slice(-2)].map((event) => `${event}\n\n`).join('')
}
