import './language.ts'
import './style.css'
import { render } from 'preact'
import { App } from './app.tsx'

const root = document.getElementById('app')!

root.replaceChildren()

render(<App />, root)
