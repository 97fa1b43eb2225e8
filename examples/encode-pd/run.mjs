// node examples/encode-pd/run.mjs [--port 9100] [--once]
import { runExample } from '../run-example.mjs'

const dot = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const body = {
  model: 'sim',
  stream: true,
  max_tokens: 12,
  messages: [{ role: 'user', content: [{ type: 'text', text: 'What is in this picture?' }, { type: 'image_url', image_url: { url: dot } }] }],
}

await runExample({
  folder: new URL('./', import.meta.url),
  fleet: ['--encode', '1', '--engines', '2'],
  questions: [
    { about: 'The picture goes to the encode engine first; `encode` in server-timing is how long that took:', body },
    { about: 'The same picture again is not encoded again:', body },
  ],
})
