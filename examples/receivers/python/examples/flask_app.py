"""A receiver with Flask, served by waitress: python examples/flask_app.py"""

from flask import Flask, request

from lumenhook_receiver import MAX_BODY_BYTES
from shop import open_shop, processed, serve

app = Flask(__name__)
receiver, inbox = open_shop()


@app.post("/webhooks")
def webhook():
    body = request.stream.read(MAX_BODY_BYTES + 1)  # the raw body, which nothing has parsed
    answer = receiver.receive(request.headers, body)
    return answer.text, answer.status, {"Content-Type": "text/plain"}


@app.get("/processed")
def show():
    return processed(inbox)


if __name__ == "__main__":
    serve(app)
