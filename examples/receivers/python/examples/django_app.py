"""A receiver with Django in one file, served by waitress: python examples/django_app.py"""

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from lumenhook_receiver import MAX_BODY_BYTES
from shop import open_shop, processed, serve

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1", "localhost"])
receiver, inbox = open_shop()


@csrf_exempt  # the signature authenticates the sender
@require_POST
def webhook(request: HttpRequest) -> HttpResponse:
    body = request.read(MAX_BODY_BYTES + 1)  # the raw body, because nothing has read request.POST
    answer = receiver.receive(request.headers, body)
    return HttpResponse(answer.text, status=answer.status, content_type="text/plain")


def show(_request: HttpRequest) -> HttpResponse:
    return JsonResponse(processed(inbox))


urlpatterns = [path("webhooks", webhook), path("processed", show)]

if __name__ == "__main__":
    serve(get_wsgi_application())
