// node examples/encode-pd/run.mjs [--port 9100] [--once]
import { runExample } from '../run-example.mjs'

const dot =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const body = {
  model: 'sim',
  stream: true,
  max_tokens: 12,
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is in this picture?' },
        { type: 'image_url', image_url: { url: dot } },
      ],
    },
  ],
}

await runExample({
  folder: new URL('./', import.meta.url),
  fleet: ['--encode', '1', '--engines', '2'],
  // As on engines with the TTFT patch: vllm-ascend #12.
  env: { TTFT_ENABLED: 'True', VLLM_TTFT_REPORT_URL: 'http://127.0.0.1:9105/ttft_report' },
  questions: [
    {
      about:
        'The image is sent to the encode engine first; `encode` in server-timing is its duration. The report ' +
        'below has every stage:',
      body,
      requestId: 'picture-1',
    },
    { about: 'The same picture again is not encoded again:', body },
  ],
})
