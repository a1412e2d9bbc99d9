/** The console's web application. */
import { render } from 'preact';
import { App } from './app.tsx';
import './styles.css';
import 'uplot/dist/uPlot.min.css';

const place = document.getElementById('app');
if (place) render(<App />, place);
