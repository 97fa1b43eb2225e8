/** Forms with a file (`multipart/form-data`), with the same bytes each time, and generated audio. */

/** Fields in order. */
export type Form = readonly (readonly [name: string, value: string | FormFile])[]

/** `sound`: seconds of WAV audio at 128 kbit/s; `text`: no audio. */
export type FormFile = { readonly sound: number } | { readonly text: string }

const boundary = 'firstlight-conformance-form'
export const formType = `multipart/form-data; boundary=${boundary}`

export function formBytes(form: Form): Buffer {
  const parts = form.map(([name, value]) => {
    const isFile = typeof value !== 'string'
    const head =
      `--${boundary}\r\ncontent-disposition: form-data; ` +
      `name="${name}"${isFile ? '; filename="talk.wav"\r\ncontent-type: audio/wav' : ''}\r\n\r\n`
    return Buffer.concat([
      Buffer.from(head),
      typeof value === 'string' ? Buffer.from(value) : fileBytes(value),
      Buffer.from('\r\n'),
    ])
  })
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])
}

export function fileBytes(file: FormFile): Buffer {
  return 'text' in file ? Buffer.from(file.text) : sound(file.sound)
}

const rate = 16_000
const headBytes = 44

/**
 * A tone that rises and falls, one byte per sample. With its header the file has the bytes of its seconds at 128
 * kbit/s.
 */
function sound(seconds: number): Buffer {
  const wav = Buffer.alloc(seconds * rate)
  const samples = wav.length - headBytes
  wav.write('RIFF')
  wav.writeUInt32LE(wav.length - 8, 4)
  wav.write('WAVEfmt ', 8)
  for (const [at, value, size] of [
    [16, 16, 4],
    [20, 1, 2],
    [22, 1, 2],
    [24, rate, 4],
    [28, rate, 4],
    [32, 1, 2],
    [34, 8, 2],
    [40, samples, 4],
  ] as const)
    wav.writeUIntLE(value, at, size)
  wav.write('data', 36)
  for (let at = 0; at < samples; at++)
    wav[headBytes + at] = 128 + Math.round(60 * Math.sin((at / rate) * 2 * Math.PI * (220 + 40 * Math.sin(at / rate))))
  return wav
}
