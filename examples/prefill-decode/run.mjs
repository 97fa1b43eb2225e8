// node examples/prefill-decode/run.mjs [--port 9100] [--once]
import { runExample } from '../run-example.mjs'

const chat = (content) => ({ model: 'sim', stream: true, max_tokens: 12, messages: [{ role: 'user', content }] })

await runExample({
  folder: new URL('./', import.meta.url),
  fleet: ['--prefill', '2', '--decode', '2'],
  questions: [
    {
      about: 'A long prompt is split: prefill on one engine, decode on another:',
      body: chat('Tell me about the first light of day. '.repeat(10)),
    },
    { about: 'A short prompt is below the threshold and is not split:', body: chat('Good morning!') },
  ],
})
